/** The fields that a JSON Schema knows, by their ways, as the documentation names them: `a.b`, and `a[].b` in a list. */
import type { z } from 'zod';

type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Each with the kind of its value. Of the fields in `whole` those below are left out. */
export function schemaFields(root: JsonSchema, whole: readonly string[]): Map<string, string> {
  const found = new Map<string, string>();
  const resolve = (schema: JsonSchema): JsonSchema =>
    schema.$ref === undefined ? schema : resolve(root.$defs?.[schema.$ref.split('/').at(-1) ?? ''] ?? {});
  const visit = (schema: JsonSchema, way: string): void => {
    const { anyOf, items, properties = {} } = resolve(schema);
    for (const each of anyOf ?? []) visit(each, way);
    if (isSchema(items)) visit(items, `${way}[]`);
    for (const [name, field] of Object.entries(properties)) {
      if (!isSchema(field)) continue;
      const path = way === '' ? name : `${way}.${name}`;
      found.set(path, kindOf(field));
      if (!whole.includes(path)) visit(field, path);
    }
  };
  const kindOf = (schema: JsonSchema): string => {
    const { type, anyOf, items, ...known } = resolve(schema);
    const values = known.enum ?? (known.const === undefined ? [] : [known.const]);
    if (values.length > 0) return values.map((value) => `\`${String(value)}\``).join(', ');
    if (anyOf) return anyOf.map(kindOf).join(' or ');
    return type === 'array' && isSchema(items) ? `list of ${kindOf(items)}` : String(type ?? 'anything');
  };
  visit(root, '');
  return found;
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
