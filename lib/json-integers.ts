/** Integers in JSON that a double cannot hold: beyond 2^53 `JSON.parse` gives another number than was written. */
import { randomUUID } from 'node:crypto';
import { endOfString } from './json-size.ts';

/** Whether JSON has an integer that `JSON.parse` would change. */
export function losesDigits(json: string): boolean {
  return findChanged(json).length > 0;
}

/** JSON as its value, in which integers that would be changed are strings of their digits. @throws SyntaxError */
export function parseKeepingDigits(json: string): unknown {
  const value: unknown = JSON.parse(json);
  const changed = findChanged(json);
  return changed.length === 0 ? value : JSON.parse(withStrings(json, changed, (digits) => digits));
}

type Path = (string | number)[];

/**
 * Where integers stand that `JSON.parse` would round, keys and places from the outside in; those beyond 2^53 that a double
 * happens to hold, or that are written again with the same digits, are none of them. Of a key that is there twice only the last counts. For JSON that is not nested deeply. @throws SyntaxError
 */
export function* findRounded(json: string): Generator<Path> {
  const rounded = findChanged(json).filter(({ start, end }) => isRounded(json.slice(start, end)));
  if (rounded.length === 0) return;
  const mark = randomUUID();
  yield* pathsTo(JSON.parse(withStrings(json, rounded, () => mark)), mark);
}

function isRounded(digits: string): boolean {
  const value = Number(digits);
  return !Number.isFinite(value) || (String(value) !== digits && BigInt(value) !== BigInt(digits));
}

function* pathsTo(value: unknown, mark: string, path: Path = []): Generator<Path> {
  if (value === mark) yield path;
  if (typeof value !== 'object' || value === null) return;
  const isList = Array.isArray(value);
  for (const [key, inside] of Object.entries(value))
    yield* pathsTo(inside, mark, [...path, isList ? Number(key) : key]);
}

/** JSON with strings in place of some of its numbers. */
function withStrings(json: string, places: readonly Place[], toText: (digits: string) => string): string {
  let kept = '';
  let from = 0;
  for (const { start, end } of places) {
    kept += `${json.slice(from, start)}"${toText(json.slice(start, end))}"`;
    from = end;
  }
  return kept + json.slice(from);
}

interface Place {
  start: number;
  end: number;
}

const NUMBER = /-?\d[\d.eE+-]*/y;

/** Where they stand in what is JSON, in their order. A loop, since texts of megabytes are too long for an expression. */
function findChanged(json: string): Place[] {
  const found: Place[] = [];
  if (!/(?<!\d)\d{16}/.test(json)) return found;
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at);
    if (sign === 0x22) at = endOfString(json, at);
    else if (sign === 0x2d || (sign >= 0x30 && sign <= 0x39)) {
      NUMBER.lastIndex = at;
      const [number = ''] = NUMBER.exec(json) ?? [];
      const end = at + Math.max(number.length, 1);
      if (/^-?\d+$/.test(number) && !Number.isSafeInteger(Number(number))) found.push({ start: at, end });
      at = end - 1;
    }
  }
  return found;
}
