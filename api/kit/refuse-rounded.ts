import { findRounded } from '../../lib/json-integers.ts';
import { RefusedJson } from './refused-json.ts';

/** Throws 400 for JSON, which must not be nested deeply, with an integer that would silently become another one. `body`: what was read of it. */
export function refuseRounded(json: string, body: unknown): void {
  for (const keys of findRounded(json)) {
    if (isBound(keys)) continue;
    const path = ['body', ...keys].join('.');
    const message = 'is an integer that JSON numbers of IEEE 754 do not hold exactly; send it as a string';
    throw new RefusedJson(body, `${path} ${message}.`, [{ path, message }]);
  }
}

const BOUND = /^(exclusiveM|m)(ax|in)imum$|^max(Length|Items|Properties)$/;
const SCHEMA = /schema$|^parameters$/i;

/** What programs write for "any int64" into the schemas that they generate, which may be rounded. */
function isBound(keys: readonly (string | number)[]): boolean {
  return BOUND.test(String(keys.at(-1))) && keys.slice(0, -1).some((key) => SCHEMA.test(String(key)));
}
