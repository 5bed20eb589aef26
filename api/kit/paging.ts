import { z } from 'zod';
import { idParam } from './validate.ts';

const DIGITS = /^\d{1,9}$/;

/** A whole number in a query, as text. */
export function integerParam(limits: { min: number; max: number }) {
  const message = `must be a whole number from ${limits.min} to ${limits.max}`;
  return z
    .string({ message })
    .regex(DIGITS, message)
    .transform(Number)
    .pipe(z.int().min(limits.min, message).max(limits.max, message));
}

/** A list in a query: repeated, or separated by commas. */
export function listParam<T extends z.ZodType<unknown, string>>(item: T) {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((given) => [given].flat().flatMap((part) => part.split(',').map((each) => each.trim())))
    .pipe(z.array(item).max(100));
}

/** A cursor: the encoded key of the previous page's last row. */
export function cursorParam<K extends z.ZodType = typeof idParam>(key?: K) {
  return z
    .string()
    .max(500)
    .transform((text, issues): unknown => {
      const parsed = (key ?? idParam).safeParse(decodeCursor(text));
      if (parsed.success) return parsed.data;
      issues.addIssue({ code: 'custom', message: 'is not a cursor of this list' });
      return z.NEVER;
    })
    .pipe(z.custom<z.output<K>>())
    .meta({ type: 'string', description: '`next_cursor` of the page before.' });
}

/** The query of a list: `limit` (1–200, 50) and `cursor`. */
export function pageQuery<K extends z.ZodType = typeof idParam>(key?: K) {
  return z.strictObject({ limit: integerParam({ min: 1, max: 200 }).default(50), cursor: cursorParam(key).optional() });
}

/** Makes a page of `limit + 1` rows; the extra one only shows that there is more. */
export function pageOf<R>(rows: readonly R[], limit: number, keyOf: (row: R) => string | number) {
  const items = rows.slice(0, limit);
  return { items, ...nextOf(items, rows.length > limit, keyOf) };
}

/** The cursor for the page after these rows, if there is one. */
export function nextOf<R>(rows: readonly R[], hasMore: boolean, keyOf: (row: R) => string | number) {
  const last = rows.at(-1);
  return hasMore && last !== undefined ? { next_cursor: encodeCursor(keyOf(last)) } : {};
}

/** The fields of a list response. */
export function pageFields<T extends z.ZodType>(plural: string, item: T) {
  return z.strictObject({ [plural]: z.array(item), next_cursor: z.string().optional() });
}

/** Encodes a key as an opaque cursor. */
export function encodeCursor(key: unknown): string {
  return Buffer.from(JSON.stringify(key)).toString('base64url');
}

function decodeCursor(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}
