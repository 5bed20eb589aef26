/** Three-way merges of shared memory: by field, and within texts by words. Pure. */
import { diff3Merge } from 'node-diff3';
import { canonicalJson } from '../canonical-json.ts';

interface Merged {
  data: unknown;
  /** Dotted paths of fields that both sides changed differently; `text` for a text. */
  conflicts: string[];
}

/** Merges two changes of a base. Where both sides agree, or one made no change, there is no conflict. */
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

/** A field removed by one side and unchanged by the other is removed. */
function mergeValues({ base, a, b }: Sides<unknown>, path: string): Merged {
  if (isSame(a, b) || isSame(b, base)) return { data: a, conflicts: [] };
  if (isSame(a, base)) return { data: b, conflicts: [] };
  return { data: { conflict: true, a: a ?? null, b: b ?? null }, conflicts: [path] };
}

/** Changes of different words are combined; of the same words, both versions are kept, between markers. */
function mergeTexts(base: string, a: string, b: string): Merged {
  if (a === b || b === base) return { data: a, conflicts: [] };
  if (a === base) return { data: b, conflicts: [] };
  const merged = mergePassages({ base, a, b }, { ways: [wordsIn, sentencesIn], steps: { left: MOST_STEPS } });
  return {
    data: merged.map(({ text }) => text).join(''),
    conflicts: merged.some((each) => each.isBoth) ? ['text'] : [],
  };
}

interface Passage {
  text: string;
  /** Both versions, between markers. */
  isBoth: boolean;
}

type Split = (text: string) => string[];

/** Ways to split texts, and the steps left for all comparisons of a merge. */
interface Means {
  ways: readonly Split[];
  steps: { left: number };
}

/**
 * Merges by the first way of splitting that is cheap enough: words, or sentences, with words inside those that both sides
 * changed. If neither is, as when one word occurs ten thousand times, both versions are kept.
 */
function mergePassages(sides: Sides<string>, { ways, steps }: Means): Passage[] {
  const split = ways.find((each) => takeSteps(partsOf(sides, each), steps));
  if (!split) return [both(sides)];
  const { base, a, b } = partsOf(sides, split);
  return diff3Merge(a, base, b, { excludeFalseConflicts: true }).flatMap(({ ok, conflict }) => {
    if (ok) return [{ text: ok.join(''), isBoth: false }];
    const inner = { base: textOf(conflict?.o), a: textOf(conflict?.a), b: textOf(conflict?.b) };
    return split === wordsIn ? [both(inner)] : mergePassages(inner, { ways: [wordsIn], steps });
  });
}

function partsOf({ base, a, b }: Sides<string>, split: Split): Sides<string[]> {
  return { base: split(base), a: split(a), b: split(b) };
}

function textOf(parts: readonly string[] = []): string {
  return parts.join('');
}

function both({ a, b }: Sides<string>): Passage {
  return { text: `<<<<<<< a\n${a}\n=======\n${b}\n>>>>>>> b`, isBoth: true };
}

/** Limit for all comparisons of a merge, about a quarter of a second. Cost of a comparison: pairs of equal parts times length. */
const MOST_STEPS = 400_000_000;

/** Takes the steps of a comparison; false if not enough are left. */
function takeSteps({ base, a, b }: Sides<string[]>, left: Means['steps']): boolean {
  const counts = new Map<string, number>();
  for (const part of base) counts.set(part, (counts.get(part) ?? 0) + 1);
  const needed = [a, b].map((side) => {
    const pairs = side.reduce((sum, part) => sum + (counts.get(part) ?? 0), 0);
    return pairs * Math.min(side.length, base.length);
  });
  const most = Math.max(...needed);
  if (most > left.left) return false;
  left.left -= most;
  return true;
}

/** Words, each with its preceding white space. */
function wordsIn(text: string): string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [];
}

/** Sentences and lines, each with its terminator. */
function sentencesIn(text: string): string[] {
  return text.match(/[^.!?\n]+[.!?\n]*\s*|[.!?\n]+\s*/g) ?? [];
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

/** Whether it has fields to merge: an undecided contradiction is a value, since its sides are no fields of a fragment. */
function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isUndecided(value);
}

function isUndecided(value: object): boolean {
  const has = (...keys: string[]) => keys.every((key) => Object.hasOwn(value, key));
  return has('conflict', 'a', 'b') || has('conflict_detected', 'version_a', 'version_b');
}
