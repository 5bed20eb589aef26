/** Three-way merges of shared memory: by field, and in texts by words. Pure. */
import { diff3Merge } from 'node-diff3';
import { canonicalJson } from '../canonical-json.ts';

export interface Merged {
  data: unknown;
  /** Where both sides have changed the same in different ways, as dotted paths; `text` in a text. */
  conflicts: string[];
}

/** What comes of two changes of one base. What both sides agree on, or one has left alone, is no conflict. */
export function mergeThreeWay(base: unknown, a: unknown, b: unknown): Merged {
  if (typeof base === 'string' && typeof a === 'string' && typeof b === 'string') return mergeTexts(base, a, b);
  return isObject(base) && isObject(a) && isObject(b)
    ? mergeFields({ base, a, b }, '')
    : mergeValues({ base, a, b }, '');
}

interface Sides<T> {
  base: T;
  a: T;
  b: T;
}

type Fields = Readonly<Record<string, unknown>>;

function mergeFields({ base, a, b }: Sides<Fields>, path: string): Merged {
  const merged = new Map<string, unknown>();
  const conflicts: string[] = [];
  const keys = [...new Set([base, a, b].flatMap((each) => Object.keys(each)))].toSorted();
  for (const key of keys) {
    const at = path === '' ? key : `${path}.${key}`;
    const sides = { base: own(base, key), a: own(a, key), b: own(b, key) };
    const inner = { base: sides.base, a: sides.a, b: sides.b };
    const field = areObjects(inner) ? mergeFields(inner, at) : mergeValues(sides, at);
    if (field.data !== undefined) merged.set(key, field.data);
    conflicts.push(...field.conflicts);
  }
  // From entries, so that a key named __proto__ is a key like any other.
  return { data: Object.fromEntries(merged), conflicts };
}

/** A field that one side has taken away, and the other has left alone, is gone. */
function mergeValues({ base, a, b }: Sides<unknown>, path: string): Merged {
  if (isSame(a, b) || isSame(b, base)) return { data: a, conflicts: [] };
  if (isSame(a, base)) return { data: b, conflicts: [] };
  return { data: { conflict: true, a: a ?? null, b: b ?? null }, conflicts: [path] };
}

/** Changes of different words go together; of the same words both are kept, between marks. */
function mergeTexts(base: string, a: string, b: string): Merged {
  if (a === b || b === base) return { data: a, conflicts: [] };
  if (a === base) return { data: b, conflicts: [] };
  const parts = diff3Merge(tokens(a), tokens(base), tokens(b), { excludeFalseConflicts: true });
  let hasConflict = false;
  const text = parts.map((part) => {
    if (part.ok) return part.ok.join('');
    hasConflict = true;
    const { a: left = [], b: right = [] } = part.conflict ?? {};
    return `<<<<<<< a\n${left.join('')}\n=======\n${right.join('')}\n>>>>>>> b`;
  });
  return { data: text.join(''), conflicts: hasConflict ? ['text'] : [] };
}

/** Words, each with the space before it. */
function tokens(text: string): string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

function own(fields: Fields, key: string): unknown {
  return Object.hasOwn(fields, key) ? fields[key] : undefined;
}

function isSame(left: unknown, right: unknown): boolean {
  return left === right || (left !== undefined && right !== undefined && canonicalJson(left) === canonicalJson(right));
}

function areObjects(sides: Sides<unknown>): sides is Sides<Fields> {
  return isObject(sides.base) && isObject(sides.a) && isObject(sides.b);
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
