import { cleanJson, holdsInfinity, isDeeperThan, noteReplaced } from '../../core/content.ts';
import { badRequest, DroverError, messageOf, tooLarge } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { parseKeepingDigits } from '../../lib/json-integers.ts';
import { holdsMoreValues } from '../../lib/json-size.ts';
import type { Room } from './shared-room.ts';
import { readText } from './read-text.ts';
import { refuseRounded } from './refuse-rounded.ts';
import { RefusedJson } from './refused-json.ts';
import type { ApiContext } from './state.ts';

const MAX_DEPTH = 256;

/**
 * Reads the request's JSON, with text made storable; an empty body is `{}`. With `keepsDigits`, integers that would be
 * rounded become strings; without, they give 400. Throws 400 for other faults of the JSON, 413 for more than 10 MiB or
 * too many values, 415 for another content type, 503 if too much is being read.
 */
export async function readBody(
  ctx: ApiContext,
  { keepsDigits, room }: { keepsDigits?: true | undefined; room: Room },
): Promise<unknown> {
  const type = ctx.request.is('json', '+json');
  // null: no body was sent.
  if (type === null || ctx.get('content-length') === '0') return {};
  if (type === false) {
    throw new DroverError('unsupported-media-type', 415, 'The body must be JSON: Content-Type: application/json.');
  }
  const json = await readText(ctx.req, { maxBytes: LIMITS.bodyBytes, room });
  if (json === '') return {};
  // Before parsing: 10 MiB of JSON can become a gigabyte of objects.
  if (holdsMoreValues(json, LIMITS.jsonValues))
    throw tooLarge(`The body has more than ${LIMITS.jsonValues} values (commas, lists and objects).`);
  const body = parse(json);
  if (isDeeperThan(body, MAX_DEPTH)) throw new RefusedJson(body, `The body is nested deeper than ${MAX_DEPTH} levels.`);
  if (holdsInfinity(body))
    throw new RefusedJson(body, 'The body has a number that is too large: at most 1.797e308, or as a string.');
  if (namesPrototype(body)) throw badRequest('The body has a key `__proto__`, which is not taken.');
  if (!keepsDigits) refuseRounded(json, body);
  const given = keepsDigits ? parseKeepingDigits(json) : body;
  const kept = cleanJson(given);
  if (kept !== given) Object.assign(ctx.state, { ...noteReplaced(given), given });
  return kept;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec(messageOf(error))?.[0];
    throw badRequest(`The body is not valid JSON${place === undefined ? '' : `: fault ${place}`}.`);
  }
}

/** Whether an object has its own `__proto__`, which code that copies it would set as prototype. */
function namesPrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(namesPrototype);
}
