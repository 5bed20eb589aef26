/** Keywords that providers refuse at the top of a tool's schema, and with it every request that has the tool. */
const REFUSED: ReadonlySet<string> = new Set(['oneOf', 'anyOf', 'allOf', 'not', 'enum', 'const']);

/**
 * A tool's schema as an object schema that providers take. What they refuse at its top is told in its description, and the gate checks
 * calls with the whole schema. `names`: what the provider takes as the name of a property.
 */
export function sentSchema(
  schema: Record<string, unknown>,
  names: RegExp = /^/,
): { type: 'object' } & Record<string, unknown> {
  const isTaken = (keyword: string) => !REFUSED.has(keyword);
  const kept: Record<string, unknown> = pick(schema, isTaken);
  const told: Record<string, unknown> = pick(schema, (keyword) => !isTaken(keyword));
  const properties = isObject(schema['properties']) ? schema['properties'] : {};
  const isNamed = (name: unknown) => typeof name === 'string' && names.test(name);
  if (!Object.keys(properties).every(isNamed)) {
    const required: unknown[] = Array.isArray(schema['required']) ? schema['required'] : [];
    Object.assign(kept, { properties: pick(properties, isNamed), required: required.filter(isNamed) });
    told['properties'] = pick(properties, (name) => !isNamed(name));
    told['required'] = required.filter((name) => !isNamed(name));
    // It would forbid what is now told alone.
    delete kept['additionalProperties'];
  }
  if (Object.keys(told).length === 0) return { ...kept, type: 'object' };
  const { description } = schema;
  const also = `The input must also match this JSON Schema: ${JSON.stringify(told)}`;
  return { ...kept, type: 'object', description: typeof description === 'string' ? `${description}\n\n${also}` : also };
}

function pick(from: Record<string, unknown>, isPicked: (key: string) => boolean): Record<string, unknown> {
  return Object.fromEntries(Object.entries(from).filter(([key]) => isPicked(key)));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
