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
  /**
   * Why a redirect may not be followed to a URL, by the hosts that the secrets have now: the URL carries a secret to a host
   * not allowed for it, or so does the request, which still has them (`carried`). Undefined if it may.
   */
  refuseUrl: (url: URL, carried: boolean) => Promise<string | undefined>;
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

/** Secrets by name, all that texts refer to: a missing one is filled in as nothing. `readAgain` reads their current hosts. */
export function createSecretValues(
  secrets: ReadonlyMap<string, StoredSecret>,
  readAgain: () => Promise<ReadonlyMap<string, Pick<StoredSecret, 'hosts'>>> = () => Promise.resolve(secrets),
): SecretValues {
  const forms = foldedForms([...secrets.values()]);
  return {
    fill: (text) => text.replace(REFERENCE, (_all, name: string) => secrets.get(name)?.value ?? ''),
    redact: (value) => (forms.length > 0 ? (redactJson(value, forms) as typeof value) : value),
    async refuseUrl(url, carried) {
      const current = secrets.size > 0 ? await readAgain() : secrets;
      for (const [name, secret] of secrets) {
        const now = current.get(name);
        const refused = now ? hostRefusing(now.hosts, url.href) : url.host;
        if (refused === undefined) continue;
        if (redactText(url.href, foldedForms([secret])) !== url.href)
          return `to ${refused} with the secret "${name}" in the URL`;
        if (carried) return `to ${refused}, which the secret "${name}" may not be sent to any more`;
      }
      return undefined;
    },
  };
}

function foldedForms(secrets: readonly StoredSecret[]): string[] {
  return [
    ...new Set(
      secrets
        .flatMap(({ value }) => [value, value.trim()])
        .flatMap(formsOf)
        .map(fold),
    ),
  ];
}

/** A text of the same length in which upper and lower case are the same. */
function fold(text: string): string {
  // In lower case the first would be two characters, and the second is another one at the end of a word.
  return text.replaceAll('İ', 'I').toLowerCase().replaceAll('ς', 'σ');
}

/** For transports and tools without secrets. */
export const NO_SECRETS: SecretValues = createSecretValues(new Map());

/** Forms in which a value may return: plain, in JSON, a URL or a form, in base64 (at any offset of a longer text) or hex. */
function formsOf(value: string): string[] {
  if (value.length < MIN_LENGTH) return [];
  const plain = [value, value.toUpperCase(), JSON.stringify(value).slice(1, -1), encodeURIComponent(cleanText(value))];
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

function redactJson(value: unknown, forms: readonly string[]): unknown {
  if (typeof value === 'string') return redactText(value, forms);
  // A value of digits may come back as a number.
  if (typeof value === 'number') return redactText(String(value), forms) === REDACTED ? REDACTED : value;
  if (Array.isArray(value)) return value.map((item) => redactJson(item, forms));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [redactText(key, forms), redactJson(item, forms)]),
  );
}

/** Replaces the forms, those that overlap as one. No regular expression: V8 takes none of more than 32,767 characters. */
function redactText(text: string, forms: readonly string[]): string {
  const folded = fold(text);
  const places = forms.map((form) => ({ form, at: folded.indexOf(form) })).filter(({ at }) => at !== -1);
  let redacted = '';
  let end = 0;
  while (places.length > 0) {
    const first = places.reduce((one, other) => (other.at < one.at ? other : one));
    if (first.at >= end) redacted += text.slice(end, first.at) + REDACTED;
    end = Math.max(end, first.at + first.form.length);
    first.at = folded.indexOf(first.form, first.at + first.form.length);
    if (first.at === -1) places.splice(places.indexOf(first), 1);
  }
  return redacted + text.slice(end);
}
