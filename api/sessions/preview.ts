/** The beginning of a text, as streams of sessions show it. */
import { LIMITS } from '../../core/limits.ts';

export function previewOf(output: unknown): string {
  if (output === undefined || output === null) return '';
  return preview(typeof output === 'string' ? output : JSON.stringify(output));
}

/** Not cut within a character. */
export function preview(text: string): string {
  return Array.from(text.slice(0, LIMITS.previewChars * 2))
    .slice(0, LIMITS.previewChars)
    .join('');
}
