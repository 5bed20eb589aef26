import { bodyParser } from '@koa/bodyparser';
import { cleanJson, holdsInfinity, isDeeperThan, noteReplaced } from '../../core/content.ts';
import { badRequest, DroverError, tooLarge } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { parseKeepingDigits } from '../../lib/json-integers.ts';
import { holdsMoreValues } from '../../lib/json-size.ts';
import { refuseRounded } from './refuse-rounded.ts';
import { RefusedJson } from './refused-json.ts';
import type { ApiContext } from './state.ts';

const MAX_DEPTH = 256;

const readText = bodyParser({
  enableTypes: ['text'],
  extendTypes: { text: ['json', '+json'] },
  textLimit: String(LIMITS.bodyBytes),
});

/**
 * The request's JSON, with text that can be stored; an empty body is `{}`. Integers that would be rounded are strings of their
 * digits with `keepsDigits`. Throws 400 for what is no JSON and, without, for such integers, 413 for more than 10 MiB and for
 * too many values, 415 for another content type.
 */
export async function readBody(ctx: ApiContext, { keepsDigits }: { keepsDigits?: true }): Promise<unknown> {
  const type = ctx.request.is('json', '+json');
  // null: no body was sent.
  if (type === null || ctx.get('content-length') === '0') return {};
  if (type === false) {
    throw new DroverError('unsupported-media-type', 415, 'The body must be JSON: Content-Type: application/json.');
  }
  await readText(ctx, () => Promise.resolve()).catch((error: unknown) => {
    throw explainBody(error, LIMITS.bodyBytes);
  });
  const text: unknown = ctx.request.body;
  const json = typeof text === 'string' ? text : '';
  if (json === '') return {};
  // Before it is parsed: a body of 10 MiB can be an object of a gigabyte.
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
  if (kept !== given) Object.assign(ctx.state, noteReplaced(given));
  return kept;
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw explainBody(error, LIMITS.bodyBytes);
  }
}

/** As its own key, which whoever copies the object would set as its prototype. */
function namesPrototype(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(namesPrototype);
}

/** What the parser of a body has failed of, as an answer says it: 400, 413 for more than `maxBytes`, 415. */
export function explainBody(error: unknown, maxBytes: number): unknown {
  if (!(error instanceof Error)) return error;
  const status: unknown = 'status' in error ? error.status : undefined;
  if (status === 413) return tooLarge(`The body is larger than ${maxBytes} bytes.`);
  if (status === 415) {
    return new DroverError(
      'unsupported-media-type',
      415,
      'The Content-Encoding must be gzip, deflate, br or identity.',
    );
  }
  if (error instanceof SyntaxError) {
    const place = /at position \d+(?: \(line \d+ column \d+\))?/.exec(error.message)?.[0];
    return badRequest(`The body is not valid JSON${place === undefined ? '' : `: fault ${place}`}.`);
  }
  if (isOfZlib(error)) return badRequest('The body cannot be decompressed as its Content-Encoding says.');
  return status === 400 ? badRequest('The body could not be read to its end.') : error;
}

/** `Z_DATA_ERROR` and its like; brotli's begin with `ERR_`, as `ERR__ERROR_FORMAT_PADDING_1` does. */
function isOfZlib(error: Error): boolean {
  return 'errno' in error && 'code' in error && /^(Z_|ERR_)/.test(String(error.code));
}
