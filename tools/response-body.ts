import type { EgressResponse } from './egress.ts';

/** A body as JSON or text (null if it is empty), or what it is instead. */
export function decodeBody(response: EgressResponse): { output: unknown } | { binary: string } {
  if (response.body.length === 0) return { output: null };
  const type = mediaType(response);
  const text = decodeText(response);
  if (text === undefined) return { binary: `${response.body.length} bytes of ${type || 'unknown type'}` };
  return { output: type === '' || /[/+]json$/.test(type) ? parseOrText(text) : text };
}

/** A body as text in its declared charset, or undefined if it is no text. */
export function decodeText(response: EgressResponse): string | undefined {
  const type = mediaType(response);
  const named = charsetOf(response.headers.get('content-type') ?? '');
  const textual = /^text\/|[/+](json|xml|yaml|x-www-form-urlencoded)$|\/(javascript|x-ndjson|jsonl|csv)$/.test(type);
  try {
    // What is not said to be text must at least be valid UTF-8 without NUL.
    const text = new TextDecoder(named ?? 'utf-8', { fatal: !textual }).decode(response.body);
    return textual || !text.includes('\u0000') ? text : undefined;
  } catch {
    return textual ? response.body.toString('utf8') : undefined;
  }
}

/** The charset that a media type declares. */
export function charsetOf(type: string): string | undefined {
  return /charset="?([\w:.-]+)"?/i.exec(type)?.[1];
}

/** The media type in lower case without parameters, '' where none is given. */
export function mediaType(response: EgressResponse): string {
  return (response.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
}

/** Text as the JSON it holds, or as it is. */
export function parseOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
