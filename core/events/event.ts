/** What an event type is made of, and the fields that many payloads have. */
import { z } from 'zod';

/** A type of event: the schema of its payload, and the version of that schema. */
export interface EventSchema<P extends z.ZodType = z.ZodType> {
  version: number;
  payload: P;
}

/**
 * Declares a type of event by the fields of its payload. Every change of a field, be it one more value of an enum, raises
 * the version; where payloads of the version before are not valid any more, `core/upcast.ts` says how they are read. A
 * build that knows a lower version leaves runs with such an event to those that know it.
 */
export function defineEvent<F extends z.ZodRawShape>(version: number, fields: F): EventSchema<z.ZodObject<F>> {
  return { version, payload: z.object(fields) };
}

export const uuid = z.uuid();
export const count = z.int().min(0);
export const problem = z.object({ code: z.string(), message: z.string() });
/** USD as a decimal string; null if the model's price is not known. */
export const money = z.string().nullable();
export const requestedCall = { tool_call_id: uuid };
/** Characters that could not be kept, NUL and halves of surrogate pairs: U+FFFD stands in the place of each. */
export const replaced = z.int().min(1).optional();
/** The key that did it. */
export const key = uuid.optional();
