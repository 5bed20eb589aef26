import { bodyParser } from '@koa/bodyparser';
import { cleanJson, holdsInfinity, isDeeperThan } from '../../core/content.ts';
import { badRequest, DroverError, tooLarge } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { parseKeepingDigits } from '../../lib/json-integers.ts';
import { refuseRounded } from './refuse-rounded.ts';
import { RefusedJson } from './refused-json.ts';
import type { ApiContext } from './state.ts';

const MAX_DEPTH = 256;

const parseJson = bodyParser({
  enableTypes: ['json'],
  // The content type has been looked at before.
  detectJSON: () => true,
  jsonLimit: LIMITS.bodyBytes,
  // What is no object is for the schema to refuse, which says what was expected.
  jsonStrict: false,
});

/**
 * The request's JSON, with text that can be stored; an empty body is `{}`. Integers that would be rounded are strings of their
 * digits with `keepsDigits`. Throws 400 for what is no JSON and, without, for such integers, 413 for more than 10 MiB, 415 for another content type.
 */
export async function readBody(ctx: ApiContext, { keepsDigits }: { keepsDigits?: true }): Promise<unknown> {
  const type = ctx.request.is('json', '+json');
  // null: no body was sent.
  if (type === null || ctx.get('content-length') === '0') return {};
  if (type === false) {
    throw new DroverError('unsupported-media-type', 415, 'The body must be JSON: Content-Type: application/json.');
  }
  await parseJson(ctx, () => Promise.resolve()).catch((error: unknown) => {
    throw explainBody(error, LIMITS.bodyBytes);
  });
  const body = ctx.request.body ?? null;
  if (body === '' && ctx.request.rawBody === '') return {};
  if (isDeeperThan(body, MAX_DEPTH)) throw new RefusedJson(body, `The body is nested deeper than ${MAX_DEPTH} levels.`);
  if (holdsInfinity(body))
    throw new RefusedJson(body, 'The body has a number that is too large: at most 1.797e308, or as a string.');
  if (keepsDigits) return cleanJson(parseKeepingDigits(ctx.request.rawBody));
  refuseRounded(ctx.request.rawBody, body);
  return cleanJson(body);
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
  if (error instanceof SyntaxError && error.message.includes('prototype')) {
    return badRequest('The body has a key `__proto__`, which is not taken.');
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
