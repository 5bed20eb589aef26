/** Options of every command that uses a service. */
import { InvalidArgumentError, type Command } from 'commander';
import type { Client } from './client.ts';
import { withClient } from './connect.ts';
import { isUuid } from '../../lib/is-uuid.ts';
import { losesDigits } from '../../lib/json-integers.ts';

export interface Shared {
  url?: string;
  key?: string;
  json?: boolean;
}

/** Adds options for the service's address, the key and the output format. */
export function withPlace(command: Command): Command {
  return command
    .option('--url <url>', 'the service (DROVER_URL, else this machine and PORT)')
    .option('--key <key>', "the key (DROVER_API_KEY, else embedded mode's own)")
    .option('--json', 'print JSON, as the API gives it');
}

/** The part of a list to show. */
export interface Page {
  limit: number;
  cursor?: string;
}

/** Adds the options of `withPlace` and of `paged`. */
export function withPage(command: Command, length: Length = {}): Command {
  return paged(withPlace(command), length);
}

/** The help text and the default of `--limit`. */
interface Length {
  limit?: number;
  of?: string;
}

/** Adds options for the part of a list to show. */
export function paged(command: Command, { limit = 50, of = 'how many' }: Length = {}): Command {
  return command
    .option('--limit <n>', of, whole(1, 200), limit)
    .option('--cursor <cursor>', 'go on where the page before has ended');
}

/** Runs a command's work with a client of the service in its options. */
export function connected<T>(options: Shared, work: (client: Client) => Promise<T>): Promise<T> {
  return withClient({ url: options.url, key: options.key }, work);
}

/** A whole number on the command line. */
export function whole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,12}$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It is a whole number from ${min} to ${max}.`);
  };
}

/** A number from 0 to 1 on the command line. */
export function share(text: string): number {
  const value = /^\d(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError('It is a number from 0 to 1.');
}

/** One of some words on the command line. */
export function oneOf(...words: string[]): (text: string) => string {
  return (text) => {
    if (words.includes(text)) return text;
    throw new InvalidArgumentError(`It is one of: ${words.join(', ')}.`);
  };
}

/** One or several of some words, separated by commas. */
export function someOf(...words: string[]): (text: string) => string {
  return (text) => {
    if (text.split(',').every((each) => words.includes(each.trim()))) return text;
    throw new InvalidArgumentError(`It is one of these, or several with commas between them: ${words.join(', ')}.`);
  };
}

/** A time on the command line. */
export function time(text: string): string {
  if (/^\d{4}-\d\d-\d\dt/i.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new InvalidArgumentError('It is a time, as 2027-01-31T00:00:00Z.');
}

/** One or several names, separated by commas. */
export function names(text: string): string[] {
  const given = text.split(',').map((each) => each.trim());
  if (given.every((each) => each !== '')) return given;
  throw new InvalidArgumentError('It is one name, or several with commas between them.');
}

/** An id on the command line: becomes part of a path. */
export function id(text: string): string {
  if (isUuid(text)) return text.toLowerCase();
  throw new InvalidArgumentError('It is not an id.');
}

/** The same, or `ext:` and the caller's own id. */
export function idOrExternal(text: string): string {
  return /^ext:./.test(text) ? text : id(text);
}

/** JSON on the command line. */
export function json(text: string): unknown {
  const parsed = parse(text);
  if (!parsed) throw new InvalidArgumentError('It is not JSON.');
  return parsed.value;
}

/** JSON on the command line, or else plain text. */
export function jsonOrText(text: string): unknown {
  const parsed = parse(text);
  return parsed ? parsed.value : text;
}

/** Rejects numbers that would be sent differently than typed, wherever they stand. */
function parse(text: string): { value: unknown } | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (losesDigits(text)) {
    throw new InvalidArgumentError('It has a number that would be changed: write it in quotes, as a text.');
  }
  return { value };
}
