/** Secrets on their way into a request, and out of whatever comes back (docs/secrets.md). */
import { cleanText } from '../core/content.ts';

/** The secrets of one transport, for one attempt. */
export interface SecretValues {
  /** The text with its `{{secret:name}}` filled in. */
  fill: (text: string) => string;
  /** A copy without the values, in keys and texts of any depth. The value must be JSON. */
  redact: <T>(value: T) => T;
}

/** What stands in place of a value. */
export const REDACTED = '[secret]';

const REFERENCE = /\{\{\s*secret:([^{}\s]{1,200})\s*\}\}/g;
/** Shorter ones would be found in the middle of words. */
const MIN_LENGTH = 4;
const MIN_ENCODED_LENGTH = 8;

/** Names of the secrets that texts refer to, each once. */
export function secretNamesIn(texts: readonly string[]): string[] {
  const references = texts.flatMap((text) => [...text.matchAll(REFERENCE)]);
  return [...new Set(references.flatMap(([, name]) => name ?? []))];
}

/** Values by name; those that a text names and that are not here become nothing, so all must be here. */
export function createSecretValues(values: ReadonlyMap<string, string>): SecretValues {
  const forms = [...values.values()].flatMap(formsOf);
  // The longest first: a value may be a part of another.
  const found = forms.toSorted((a, b) => b.length - a.length).map(escapeForRegExp);
  const pattern = found.length === 0 ? undefined : new RegExp([...new Set(found)].join('|'), 'gi');
  return {
    fill: (text) => text.replace(REFERENCE, (_all, name: string) => values.get(name) ?? ''),
    redact: (value) => (pattern ? (redactJson(value, pattern) as typeof value) : value),
  };
}

/** For transports and tools that have none. */
export const NO_SECRETS: SecretValues = createSecretValues(new Map());

/** How a value may come back: as it is, inside JSON, a URL or a form, in base64 (at any offset of a longer text) or hex. */
function formsOf(value: string): string[] {
  if (value.length < MIN_LENGTH) return [];
  const plain = [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(cleanText(value))];
  plain.push(new URLSearchParams({ '': value }).toString().slice(1));
  if (value.length < MIN_ENCODED_LENGTH) return plain;
  const bytes = Buffer.from(value);
  return [...plain, bytes.toString('hex'), ...[0, 1, 2].flatMap((offset) => base64At(bytes, offset))];
}

/** The characters that encode nothing but the value where it begins at `offset` of a group of three bytes. */
function base64At(value: Buffer, offset: number): string[] {
  const bytes = Buffer.concat([Buffer.alloc(offset), value]);
  const [from, to] = [Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6)];
  return [bytes.toString('base64').slice(from, to), bytes.toString('base64url').slice(from, to)];
}

function redactJson(value: unknown, pattern: RegExp): unknown {
  if (typeof value === 'string') return value.replace(pattern, REDACTED);
  // Digits alone may come back as a number.
  if (typeof value === 'number') return String(value).replace(pattern, '') === '' ? REDACTED : value;
  if (Array.isArray(value)) return value.map((item) => redactJson(item, pattern));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key.replace(pattern, REDACTED), redactJson(item, pattern)]),
  );
}

function escapeForRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`);
}
