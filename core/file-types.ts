/** Detects file types: by the first bytes, otherwise as declared by the sender or implied by the name. */

import { LIMITS } from './limits.ts';

/** Magic bytes by type; null matches any byte. */
const SIGNATURES: readonly (readonly [type: string, bytes: readonly (number | null)[]])[] = [
  ['image/png', [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', [0xff, 0xd8, 0xff]],
  ['image/gif', [0x47, 0x49, 0x46, 0x38]],
  ['image/webp', [0x52, 0x49, 0x46, 0x46, null, null, null, null, 0x57, 0x45, 0x42, 0x50]],
  ['application/pdf', [0x25, 0x50, 0x44, 0x46, 0x2d]],
];

/** Number of bytes that `typeOfFile` needs. */
export const SIGNATURE_BYTES = 12;

export const UNKNOWN_TYPE = 'application/octet-stream';
/** Default type of a part in a multipart request (RFC 7578, 4.4). */
const UNSAID_TYPE = 'text/plain';

/** Types by file extension, for types that senders often do not know. */
const BY_ENDING: Readonly<Record<string, string>> = {
  txt: 'text/plain',
  log: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
  css: 'text/css',
  tsv: 'text/tab-separated-values',
  ...Object.fromEntries(
    'c cc cpp cs go h hpp ini java js jsonl jsx kt mjs php py r rb rs rst scala sh sql swift tex toml ts tsx'
      .split(' ')
      .map((ending) => [ending, UNSAID_TYPE]),
  ),
};

/**
 * Returns the type of a file in lower case, without parameters. Types with magic bytes are accepted only if these match: a
 * provider would refuse what only claims to be an image, again and again.
 */
export function typeOfFile(file: { head: Uint8Array; declared: string | undefined; filename: string }): string {
  const signed = SIGNATURES.find(([, bytes]) =>
    bytes.every((byte, index) => byte === null || file.head[index] === byte),
  );
  if (signed) return signed[0];
  const declared = (file.declared ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  const isType = /^[a-z0-9!#$&^_.+-]{1,60}\/[a-z0-9!#$&^_.+-]{1,60}$/.test(declared);
  const isClaimed = SIGNATURES.some(([type]) => type === declared);
  const isSaid = isType && !isClaimed && declared !== UNKNOWN_TYPE;
  if (isSaid && declared !== UNSAID_TYPE) return declared;
  const byEnding = BY_ENDING[/\.([a-z]{1,8})$/i.exec(file.filename)?.[1]?.toLowerCase() ?? ''];
  return byEnding ?? (isSaid ? declared : UNKNOWN_TYPE);
}

/** Types that models get as images. */
export const IMAGE_TYPES: readonly string[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'];
export const PDF_TYPE = 'application/pdf';

/** Whether a file of this type is text, by its type alone. */
export function isTextType(type: string): boolean {
  if (type.startsWith('text/') || /^application\/.*\+(json|xml|yaml)$/.test(type)) return true;
  return TEXT_TYPES.has(type.replace('/x-', '/'));
}

/** Text types that do not begin with `text/`. */
const TEXT_TYPES: ReadonlySet<string> = new Set(
  [
    'json',
    'xml',
    'yaml',
    'javascript',
    'ecmascript',
    'typescript',
    'jsonl',
    'ndjson',
    'sh',
    'sql',
    'toml',
    'python',
  ].map((name) => `application/${name}`),
);

/** Why models would refuse a file, as words to follow its name; undefined if they would not. */
export function faultOfFile(
  { mime_type: type, size }: { mime_type: string; size: number },
  taken: { imageBytes: number; pdfBytes: number },
): string | undefined {
  const isText = isTextType(type);
  if (!isText && type !== PDF_TYPE && !IMAGE_TYPES.includes(type)) {
    return `is of the type ${type}: models take ${[...IMAGE_TYPES, PDF_TYPE].join(', ')} and text`;
  }
  const most = isText ? LIMITS.attachedTextBytes : type === PDF_TYPE ? taken.pdfBytes : taken.imageBytes;
  if (most === 0) return `is of the type ${type}, which this model does not take`;
  return size > most ? `has ${size} bytes, and this model takes at most ${most} of the type ${type}` : undefined;
}

/** The last path component without characters that act in a terminal, path or header; `file` if nothing is left. */
export function cleanFilename(name: string | undefined, maxChars: number): string {
  const last = (name ?? '').split(/[/\\]/).at(-1) ?? '';
  const plain = last.replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, '').trim();
  const cut = plain
    .slice(0, maxChars)
    .toWellFormed()
    .replace(/\ufffd$/, '');
  return /^\.*$/.test(cut) ? 'file' : cut;
}
