/** Suggests the field that a client may have meant by an unknown one: the nearest name in the same object. */
import { z } from 'zod';

type Schema = z.core.$ZodType;

/** A field, by its path from the object. */
interface Field {
  path: string[];
  name: string;
}

/** Longer names are no slips of the pen. */
const LONGEST_NAME = 64;
/** How deep below the object a field may be. */
const DEEPEST = 3;
/** Share of a name's letters that may be wrong. */
const MISSPELT = 1 / 3;

/** What other systems call a field of ours whose name shares no word with theirs. */
const KNOWN_ELSEWHERE: Readonly<Record<string, string>> = {
  approval_required: 'risk_level',
  needs_approval: 'risk_level',
  require_approval: 'risk_level',
  requires_approval: 'risk_level',
};

/** The field nearest to the last one of a path, dotted and relative to its object; undefined if none is near. */
export function nearestField(schema: z.ZodType, path: readonly PropertyKey[]): string | undefined {
  const given = path.at(-1);
  if (typeof given !== 'string' || given.length > LONGEST_NAME) return undefined;
  const near = fieldsOf(schemasAt(schema, path.slice(0, -1)))
    .filter(({ path: [first, ...below] }) => first !== given || below.length > 0)
    .flatMap(({ path: way, name }) => {
      const rank = rankOf(given.toLowerCase(), name);
      return rank ? [{ way, rank: [rank.kind, way.length, rank.distance] }] : [];
    });
  // Ties go to the first in the schema.
  const [nearest] = near.toSorted((a, b) => compare(a.rank, b.rank));
  return nearest?.way.join('.');
}

/** How a name resembles the given one: misspelt, its last words, or its first words; undefined if it does not. */
function rankOf(given: string, name: string): { kind: number; distance: number } | undefined {
  if (KNOWN_ELSEWHERE[given] === name) return { kind: 0, distance: 0 };
  const most = given.length * MISSPELT;
  const longer = Math.abs(name.length - given.length);
  const distance = longer <= most ? editDistance(given, name) : Infinity;
  if (distance <= most) return { kind: 0, distance };
  if (name.endsWith(`_${given}`)) return { kind: 1, distance: longer };
  if (name.startsWith(`${given}_`)) return { kind: 2, distance: longer };
  return undefined;
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((value, index) => value !== b[index]);
  return at < 0 ? 0 : (a[at] ?? 0) - (b[at] ?? 0);
}

/** Number of letters to insert, remove, replace or swap (optimal string alignment). */
function editDistance(from: string, to: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, index) => index);
  for (let row = 1; row <= from.length; row++) {
    const next = [row];
    for (let column = 1; column <= to.length; column++) {
      const isSame = from[row - 1] === to[column - 1];
      const isSwapped = row > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      next[column] = Math.min(
        costAt(last, column) + 1,
        costAt(next, column - 1) + 1,
        costAt(last, column - 1) + (isSame ? 0 : 1),
        isSwapped ? costAt(beforeLast, column - 2) + 1 : Infinity,
      );
    }
    [beforeLast, last] = [last, next];
  }
  return costAt(last, to.length);
}

function costAt(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}

/** Fields of objects and of objects in them, but not in lists. */
function fieldsOf(schemas: readonly Schema[], way: readonly string[] = []): Field[] {
  if (way.length > DEEPEST) return [];
  return schemas.flatMap((schema) =>
    Object.entries(shapeOf(schema)).flatMap(([name, inner]) => {
      const path = [...way, name];
      return [{ path, name }, ...fieldsOf(unwrapped(inner), path)];
    }),
  );
}

/** The schemas for the value at a path, one for each alternative. */
function schemasAt(schema: Schema, path: readonly PropertyKey[]): Schema[] {
  return path.reduce<Schema[]>(
    (schemas, key) => schemas.flatMap((each) => innerOf(each, key)).flatMap(unwrapped),
    unwrapped(schema),
  );
}

function innerOf(schema: Schema, key: PropertyKey): Schema[] {
  if (schema instanceof z.ZodObject)
    return Object.entries(shapeOf(schema)).flatMap(([name, inner]) => (name === key ? [inner] : []));
  if (schema instanceof z.ZodArray) return [schema.def.element];
  return schema instanceof z.ZodRecord ? [schema.def.valueType] : [];
}

function shapeOf(schema: Schema): Readonly<Record<string, Schema>> {
  return schema instanceof z.ZodObject ? schema.def.shape : {};
}

/** Strips `optional` and the like, and splits unions. */
function unwrapped(schema: Schema): Schema[] {
  if (schema instanceof z.ZodUnion) return schema.def.options.flatMap(unwrapped);
  if (schema instanceof z.ZodPipe) return unwrapped(schema.def.in);
  return WRAPPERS.some((wrapper) => schema instanceof wrapper)
    ? unwrapped((schema as z.ZodOptional).def.innerType)
    : [schema];
}

const WRAPPERS = [z.ZodOptional, z.ZodNullable, z.ZodDefault, z.ZodPrefault, z.ZodReadonly, z.ZodCatch];
