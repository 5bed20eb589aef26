/** Secrets on their way into a request, and out of whatever comes back (docs/secrets.md). */
import { cleanText } from '../core/content.ts';
import { namesHost } from './secret-hosts.ts';

/** A secret as it is stored. */
export interface StoredSecret {
  value: string;
  /** Where it may be sent (`tools/secret-hosts.ts`); null where it does not say. */
  hosts: readonly string[] | null;
}

/** The secrets of one transport, for one attempt. */
export interface SecretValues {
  /** The text with its `{{secret:name}}` filled in. */
  fill: (text: string) => string;
  /** A copy without the values, in keys and texts of any depth. The value must be JSON. */
  redact: <T>(value: T) => T;
  /** Why a URL that somebody else has made may not be asked: it carries a secret to a host that is not the secret's. */
  refuseUrl: (url: URL) => string | undefined;
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

/** What a secret of a tenant is called: what stands before a colon belongs to Drover itself. */
export function isToolSecret(name: string): boolean {
  return !name.includes(':');
}

/** Where a secret would be sent, against its hosts; undefined where that may be. `destination` is a URL, or no host at all. */
export function hostRefusing(hosts: readonly string[] | null, destination: string | undefined): string | undefined {
  if (hosts === null) return undefined;
  if (destination === undefined || !URL.canParse(destination)) return 'what is no host';
  const url = new URL(destination);
  return namesHost(hosts, url) ? undefined : url.host;
}

/** Secrets by name; those that a text names and that are not here become nothing, so all must be here. */
export function createSecretValues(secrets: ReadonlyMap<string, StoredSecret>): SecretValues {
  const pattern = patternOf([...secrets.values()]);
  return {
    fill: (text) => text.replace(REFERENCE, (_all, name: string) => secrets.get(name)?.value ?? ''),
    redact: (value) => (pattern ? (redactJson(value, pattern) as typeof value) : value),
    refuseUrl(url) {
      for (const [name, secret] of secrets) {
        const refused = hostRefusing(secret.hosts, url.href);
        if (refused !== undefined && patternOf([secret])?.test(url.href))
          return `to ${refused} with the secret "${name}" in the URL`;
      }
      return undefined;
    },
  };
}

/** Finds the values in any of their forms. */
function patternOf(secrets: readonly StoredSecret[]): RegExp | undefined {
  const forms = secrets.flatMap(({ value }) => formsOf(value));
  // The longest first: a value may be a part of another.
  const found = forms.toSorted((a, b) => b.length - a.length).map(escapeForRegExp);
  return found.length === 0 ? undefined : new RegExp([...new Set(found)].join('|'), 'gi');
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
