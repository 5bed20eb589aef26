/** Beginnings of texts, for streams of sessions. */
import { LIMITS } from '../../core/limits.ts';

export function previewOf(output: unknown): string {
  if (output === undefined || output === null) return '';
  return preview(typeof output === 'string' ? output : JSON.stringify(output));
}

/** Never cuts a character in two. */
export function preview(text: string): string {
  return Array.from(text.slice(0, LIMITS.previewChars * 2))
    .slice(0, LIMITS.previewChars)
    .join('');
}
