/** Fills secrets into requests, and removes them from responses (docs/secrets.md). */
import { cleanText } from '../core/content.ts';
import { namesHost } from './secret-hosts.ts';

/** A secret as it is stored. */
export interface StoredSecret {
  value: string;
  /** Where it may be sent (`tools/secret-hosts.ts`); null: anywhere. */
  hosts: readonly string[] | null;
}

/** The secrets of one transport, for one attempt. */
export interface SecretValues {
  /** Fills in `{{secret:name}}`. */
  fill: (text: string) => string;
  /** A copy of a JSON value without the secrets, in keys and strings at any depth. */
  redact: <T>(value: T) => T;
  /** Why a foreign URL may not be requested: it carries a secret to a host not allowed for it. Undefined if it may. */
  refuseUrl: (url: URL) => string | undefined;
}

/** Replaces a secret's value. */
export const REDACTED = '[secret]';

const REFERENCE = /\{\{\s*secret:([^{}\s]{1,200})\s*\}\}/g;
/** Shorter values would match inside ordinary words. */
const MIN_LENGTH = 4;
const MIN_ENCODED_LENGTH = 8;

/** Names of the secrets that the texts refer to, each once. */
export function secretNamesIn(texts: readonly string[]): string[] {
  const references = texts.flatMap((text) => [...text.matchAll(REFERENCE)]);
  return [...new Set(references.flatMap(([, name]) => name ?? []))];
}

/** Whether a name is a tenant's own secret: those with a colon are Drover's. */
export function isToolSecret(name: string): boolean {
  return !name.includes(':');
}

/** The host that a secret may not be sent to; undefined if it may. `destination` is a URL; undefined if there is no host. */
export function hostRefusing(hosts: readonly string[] | null, destination: string | undefined): string | undefined {
  if (hosts === null) return undefined;
  if (destination === undefined || !URL.canParse(destination)) return 'what is no host';
  const url = new URL(destination);
  return namesHost(hosts, url) ? undefined : url.host;
}

/** Secrets by name, all that texts refer to: a missing one is filled in as nothing. */
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

/** Matches the values in all their forms. */
function patternOf(secrets: readonly StoredSecret[]): RegExp | undefined {
  const forms = secrets.flatMap(({ value }) => formsOf(value));
  // Longest first: one value may contain another.
  const found = forms.toSorted((a, b) => b.length - a.length).map(escapeForRegExp);
  return found.length === 0 ? undefined : new RegExp([...new Set(found)].join('|'), 'gi');
}

/** For transports and tools without secrets. */
export const NO_SECRETS: SecretValues = createSecretValues(new Map());

/** Forms in which a value may return: plain, in JSON, a URL or a form, in base64 (at any offset of a longer text) or hex. */
function formsOf(value: string): string[] {
  if (value.length < MIN_LENGTH) return [];
  const plain = [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(cleanText(value))];
  plain.push(new URLSearchParams({ '': value }).toString().slice(1));
  if (value.length < MIN_ENCODED_LENGTH) return plain;
  const bytes = Buffer.from(value);
  return [...plain, bytes.toString('hex'), ...[0, 1, 2].flatMap((offset) => base64At(bytes, offset))];
}

/** The base64 characters that depend on the value alone, if it starts at `offset` of a group of three bytes. */
function base64At(value: Buffer, offset: number): string[] {
  const bytes = Buffer.concat([Buffer.alloc(offset), value]);
  const [from, to] = [Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6)];
  return [bytes.toString('base64').slice(from, to), bytes.toString('base64url').slice(from, to)];
}

function redactJson(value: unknown, pattern: RegExp): unknown {
  if (typeof value === 'string') return value.replace(pattern, REDACTED);
  // A value of digits may come back as a number.
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
