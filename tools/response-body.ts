import { LIMITS } from '../core/limits.ts';
import { parseKeepingDigits } from '../lib/json-integers.ts';
import { holdsMoreValues } from '../lib/json-size.ts';
import { UnknownEncodingError } from '../lib/unpack-body.ts';
import type { EgressResponse } from './egress.ts';

/** The fault for JSON that is too large to be parsed. */
export const TOO_MANY_VALUES = {
  code: 'output-too-large',
  message: `The tool answered more than ${LIMITS.jsonValues} values (commas, lists and objects), which is more than may be kept.`,
};

/** A body as JSON or text (null if empty), or its fault. */
export function decodeBody(
  response: EgressResponse,
): { output: unknown } | { fault: { code: string; message: string } } {
  if (response.body.length === 0) return { output: null };
  const unreadable = unknownEncodingOf(response);
  if (unreadable) return { fault: unreadable };
  const type = mediaType(response);
  const text = decodeText(response);
  if (text === undefined) {
    const why = isTextual(type) ? `which are ${NO_SUCH_TEXT}` : 'neither JSON nor text';
    const what = `${response.body.length} bytes of ${type || 'unknown type'}, ${why}`;
    return { fault: { code: 'not-text', message: `The tool answered with ${what}.` } };
  }
  if (type === '') return { output: parseOrText(text) };
  if (!/[/+]json$/.test(type)) return { output: text };
  return hasTooManyValues(text) ? { fault: TOO_MANY_VALUES } : { output: parseOrText(text) };
}

/** The fault of an answer in an encoding that cannot be undone; undefined for any other. */
export function unknownEncodingOf({
  unknownEncoding: encoding,
}: EgressResponse): { code: string; message: string } | undefined {
  if (encoding === undefined) return undefined;
  return { code: 'egress-unknown-encoding', message: new UnknownEncodingError(encoding).message };
}

/** Describes undecodable bytes declared as text; follows "are". */
export const NO_SUCH_TEXT = 'no text in its charset (UTF-8 unless it names one)';

/** A body as text in its declared charset; undefined if it is not text. */
export function decodeText(response: EgressResponse): string | undefined {
  const text = textIn(response.body, charsetOf(response.headers.get('content-type') ?? ''));
  // A body not declared as text must at least have no NUL.
  return isTextual(mediaType(response)) || !text?.includes('\u0000') ? text : undefined;
}

/** Whether a body of this type is declared to be text. */
export function isTextual(type: string): boolean {
  return /^text\/|[/+](json|xml|yaml|x-www-form-urlencoded)$|\/(javascript|x-ndjson|jsonl|csv)$/.test(type);
}

/**
 * Decodes bytes in a charset, or UTF-8 if it is missing or unknown; undefined if they are invalid: a model would read
 * what nobody has written.
 */
export function textIn(bytes: Buffer, charset: string | undefined): string | undefined {
  const decoder = decoderOf(charset ?? 'utf-8') ?? new TextDecoder('utf-8', { fatal: true });
  try {
    const text = decoder.decode(bytes);
    return decoder.encoding === 'windows-1252' ? text.replaceAll(/[\x80-\x9f]/g, fromWindows1252) : text;
  } catch {
    return undefined;
  }
}

/** Bytes 0x80 to 0x9f in windows-1252, which ISO 8859-1 also stands for (encoding.spec.whatwg.org). */
const WINDOWS_1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

/** Node 20 does not convert these bytes. */
function fromWindows1252(byte: string): string {
  return WINDOWS_1252[byte.charCodeAt(0) - 0x80] ?? byte;
}

function decoderOf(charset: string): InstanceType<typeof TextDecoder> | undefined {
  try {
    return new TextDecoder(charset, { fatal: true });
  } catch {
    return undefined;
  }
}

/** The charset that a media type declares. */
export function charsetOf(type: string): string | undefined {
  return /charset="?([\w:.-]+)"?/i.exec(type)?.[1];
}

/** The media type in lower case without parameters; '' if there is none. */
export function mediaType(response: EgressResponse): string {
  return (response.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}

/** Whether JSON has more values than may be parsed; other text may seem to. */
export function hasTooManyValues(json: string): boolean {
  return holdsMoreValues(json, LIMITS.jsonValues);
}

/**
 * Parses text as JSON; returns it unchanged if it is none or has too many values. Integers beyond 2^53 become strings,
 * as numbers would lose digits.
 */
export function parseOrText(text: string): unknown {
  if (hasTooManyValues(text)) return text;
  try {
    return parseKeepingDigits(text);
  } catch {
    return text;
  }
}
