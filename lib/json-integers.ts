/** Finds numbers in JSON that `JSON.parse` may change: integers beyond 2^53, and any beyond those of a double. */
import { randomUUID } from 'node:crypto';
import { endOfString } from './json-size.ts';

/** Whether JSON has a number that `JSON.parse` would change so. */
export function losesDigits(json: string): boolean {
  return findChanged(json).length > 0;
}

/** Parses JSON, with numbers that would be changed so as strings, as they are written. @throws SyntaxError */
export function parseKeepingDigits(json: string): unknown {
  const value: unknown = JSON.parse(json);
  const changed = findChanged(json);
  return changed.length === 0 ? value : JSON.parse(withStrings(json, changed, (digits) => digits));
}

type Path = (string | number)[];

/**
 * Yields the paths (keys and indexes, from the outside in) of numbers that are other ones once parsed and written again.
 * A double that holds one exactly is no help: from 2^55 on its digits may be written otherwise. Of a repeated key only
 * the last counts. For JSON that is not nested deeply. @throws SyntaxError
 */
export function* findRounded(json: string): Generator<Path> {
  const rounded = findChanged(json).filter(({ start, end }) => isRounded(json.slice(start, end)));
  if (rounded.length === 0) return;
  const mark = randomUUID();
  yield* pathsTo(JSON.parse(withStrings(json, rounded, () => mark)), mark);
}

function isRounded(digits: string): boolean {
  const value = Number(digits);
  return !Number.isFinite(value) || (String(value) !== digits && asWritten(value) !== BigInt(digits));
}

/** The integer that is written for a double. Those from 1e21 on have an exponent, and fewer digits after the point than it says. */
function asWritten(value: number): bigint {
  const [digits = '', exponent = '0'] = String(value).split('e+');
  const [whole = '', fraction = ''] = digits.split('.');
  return BigInt(whole + fraction) * 10n ** BigInt(Number(exponent) - fraction.length);
}

function* pathsTo(value: unknown, mark: string, path: Path = []): Generator<Path> {
  if (value === mark) yield path;
  if (typeof value !== 'object' || value === null) return;
  const isList = Array.isArray(value);
  for (const [key, inside] of Object.entries(value))
    yield* pathsTo(inside, mark, [...path, isList ? Number(key) : key]);
}

/** Replaces some numbers in JSON by strings. */
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

/** Those numbers in valid JSON, in order. A loop, since megabytes are too long for a regular expression. */
function findChanged(json: string): Place[] {
  const found: Place[] = [];
  if (!/(?<!\d)\d{16}|\de\+?\d{3}/i.test(json)) return found;
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at);
    if (sign === 0x22) at = endOfString(json, at);
    else if (sign === 0x2d || (sign >= 0x30 && sign <= 0x39)) {
      NUMBER.lastIndex = at;
      const [number = ''] = NUMBER.exec(json) ?? [];
      const end = at + Math.max(number.length, 1);
      if (isChanged(number)) found.push({ start: at, end });
      at = end - 1;
    }
  }
  return found;
}

function isChanged(number: string): boolean {
  const value = Number(number);
  return !Number.isFinite(value) || (/^-?\d+$/.test(number) && !Number.isSafeInteger(value));
}
