/** The definition of event types, and fields shared by many payloads. */
import { z } from 'zod';

/** A type of event: the schema of its payload, and the version of that schema. */
export interface EventSchema<P extends z.ZodType = z.ZodType> {
  version: number;
  payload: P;
}

/**
 * Declares an event type by the fields of its payload. Any change of a field, even a new enum value, raises the version. If
 * payloads of the previous version become invalid, `core/upcast.ts` converts them. A build that knows only a lower version
 * leaves runs with such an event to other builds.
 */
export function defineEvent<F extends z.ZodRawShape>(version: number, fields: F): EventSchema<z.ZodObject<F>> {
  return { version, payload: z.object(fields) };
}

export const uuid = z.uuid();
export const count = z.int().min(0);
export const problem = z.object({ code: z.string(), message: z.string() });
/** USD as a decimal string; null if the model's price is unknown. */
export const money = z.string().nullable();
export const requestedCall = { tool_call_id: uuid };
/** How many characters could not be stored (NUL, halves of surrogate pairs); each was replaced by U+FFFD. */
export const replaced = z.int().min(1).optional();
/** The API key that was used. */
export const key = uuid.optional();
