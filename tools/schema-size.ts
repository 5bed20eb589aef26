/** How large a JSON Schema is, and what it checks: what compiling and checking may cost. Linear in both. */

export interface SchemaSize {
  /** All its values, those within lists and objects among them. */
  all: number;
  /** What compiling it costs, in values: about 60 µs each. */
  compiled: number;
}

/** A pattern, what a `$ref` names, and a name that others depend on, cost as much to compile as so many more values. */
const HEAVY = 10;
/** So does a property where `unevaluatedProperties` holds all of them against each other (2.2 s for 1,250 in an `allOf`). */
const HEAVIER = 20;

export function countSchema(schema: Record<string, unknown>): SchemaSize {
  const refs = new Set<unknown>();
  const left: unknown[] = [schema];
  let all = 0;
  let heavy = 0;
  let properties = 0;
  let isUnevaluated = false;
  // Long lists are compared in a loop: what they list becomes no code.
  let listed = 0;
  while (left.length > 0) {
    const item = left.pop();
    all += 1;
    if (Array.isArray(item)) for (const each of item as unknown[]) left.push(each);
    if (typeof item !== 'object' || item === null || Array.isArray(item)) continue;
    for (const [key, value] of Object.entries(item)) {
      left.push(value);
      if (key === '$ref' || key === '$dynamicRef') refs.add(value);
      else if (key === 'pattern') heavy += 1;
      else if (key === 'patternProperties') heavy += Object.keys(Object(value)).length;
      else if (key === 'dependentRequired' || key === 'dependencies') heavy += countListed(value);
      else if (key === 'properties') properties += Object.keys(Object(value)).length;
      else if (key === 'unevaluatedProperties') isUnevaluated = true;
      // A list or object within one counts, as a `$ref` may name it.
      else if (key === 'enum' && Array.isArray(value))
        listed += value.filter((each) => typeof each !== 'object').length;
    }
  }
  const compiled = all - listed + HEAVY * (heavy + refs.size) + (isUnevaluated ? HEAVIER * properties : 0);
  return { all, compiled };
}

/** What the lists of an object have together. */
function countListed(value: unknown): number {
  const values: unknown[] = Object.values(Object(value) as object);
  return values.reduce<number>((sum, each) => sum + (Array.isArray(each) ? each.length : 0), 0);
}

/** Whether some JSON has at most so many values and characters, together. */
export function isSmall(root: unknown, most: number): boolean {
  const left = [root];
  let size = 0;
  while (left.length > 0) {
    const item = left.pop();
    size += 1;
    if (typeof item === 'string') size += item.length;
    if (typeof item === 'object' && item !== null) {
      const items = Object.values(item) as unknown[];
      // Before they are taken up: most of a long list is never looked at.
      if (size + items.length > most) return false;
      for (const each of items) left.push(each);
    }
    if (size > most) return false;
  }
  return true;
}
