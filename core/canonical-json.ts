/** Canonical JSON (RFC 8785), the input of hashes. */
import canonicalize from 'canonicalize';

/**
 * The same value gives the same bytes. Most values are plain, and `JSON.stringify` writes them canonically once their keys are
 * in order; the rest goes to the library, whose result this always equals.
 */
export function canonicalJson(value: unknown): string {
  const ordered = inOrder(value, 0);
  return ordered === NOT_PLAIN ? (canonicalize(value) ?? 'null') : JSON.stringify(ordered);
}

/** The value as if parsed from its canonical JSON: keys in order, nothing unknown to JSON. May be the value itself. */
export function canonicalValue<T>(value: T): T {
  const ordered = inOrder(value, 0);
  return (ordered === NOT_PLAIN ? JSON.parse(canonicalize(value) ?? 'null') : ordered) as T;
}

const NOT_PLAIN = Symbol('not plain');

/** Deeper values go to the library, which detects cycles. */
const MOST_LEVELS = 200;

/** The value with its keys in order (by UTF-16 code units); the value itself if they already are. */
function inOrder(value: unknown, level: number): unknown {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      return Number.isFinite(value) ? value : NOT_PLAIN;
    case 'object':
      if (value === null) return value;
      if (level > MOST_LEVELS || 'toJSON' in value) return NOT_PLAIN;
      return Array.isArray(value) ? listInOrder(value, level) : recordInOrder(value as Record<string, unknown>, level);
    default:
      return NOT_PLAIN;
  }
}

function listInOrder(list: readonly unknown[], level: number): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < list.length; index += 1) {
    const item = inOrder(list[index], level + 1);
    if (item === NOT_PLAIN) return NOT_PLAIN;
    if (copy) copy.push(item);
    else if (item !== list[index]) copy = [...list.slice(0, index), item];
  }
  return copy ?? list;
}

function recordInOrder(record: Readonly<Record<string, unknown>>, level: number): unknown {
  const keys = Object.keys(record);
  const isOrdered = isAscending(keys);
  if (!isOrdered) {
    // Engines put such keys first, and in the order of their numbers.
    if (keys.some(isLikeNumber)) return NOT_PLAIN;
    keys.sort();
  }
  let copy: Record<string, unknown> | undefined = isOrdered ? undefined : {};
  for (const [index, key] of keys.entries()) {
    const value = record[key];
    if (value === undefined) {
      copy ??= firstOf(record, keys, index);
      continue;
    }
    const item = inOrder(value, level + 1);
    if (item === NOT_PLAIN || key === '__proto__') return NOT_PLAIN;
    if (item !== value) copy ??= firstOf(record, keys, index);
    if (copy) copy[key] = item;
  }
  return copy ?? record;
}

function firstOf(record: Readonly<Record<string, unknown>>, keys: readonly string[], count: number) {
  const copy: Record<string, unknown> = {};
  for (const key of keys.slice(0, count)) copy[key] = record[key];
  return copy;
}

function isAscending(keys: readonly string[]): boolean {
  return keys.every((key, index) => index === 0 || (keys[index - 1] ?? '') < key);
}

function isLikeNumber(key: string): boolean {
  const first = key.charCodeAt(0);
  return first >= 48 && first <= 57;
}
