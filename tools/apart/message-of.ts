import { beginningOf } from '../../core/content.ts';

/** The error's text. JSONata throws plain objects with a message and a position. */
export function messageOf(error: unknown): string {
  const { message, position } = error as { message?: unknown; position?: unknown };
  const text = typeof message === 'string' ? beginningOf(message, 500) : 'unknown reason';
  return typeof position === 'number' ? `${text} (at character ${position})` : text;
}
