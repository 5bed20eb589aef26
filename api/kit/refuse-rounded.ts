import { findRounded } from '../../lib/json-integers.ts';
import { RefusedJson } from './refused-json.ts';

/**
 * Throws 400 for an integer in the JSON that would silently change. `body` is the parsed JSON, whose nesting must have
 * been checked.
 */
export function refuseRounded(json: string, body: unknown): void {
  for (const keys of findRounded(json)) {
    if (isBound(keys)) continue;
    const path = ['body', ...keys].join('.');
    const message = 'is an integer that JSON numbers of IEEE 754 do not keep digit by digit; send it as a string';
    throw new RefusedJson(body, `${path} ${message}.`, [{ path, message }]);
  }
}

const BOUND = /^(exclusiveM|m)(ax|in)imum$|^max(Length|Items|Properties)$/;
const SCHEMA = /schema$|^parameters$/i;

/** Whether it is a bound in a schema: generators write these for "any int64", and they may be rounded. */
function isBound(keys: readonly (string | number)[]): boolean {
  return BOUND.test(String(keys.at(-1))) && keys.slice(0, -1).some((key) => SCHEMA.test(String(key)));
}
