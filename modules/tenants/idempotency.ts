import { badRequest, impossible } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import type { Tx } from '../../db/database.ts';
import { inJsonbOrder } from '../../db/jsonb-order.ts';
import { claimIdempotencyKey, readIdempotencyKey, storeIdempotentAnswer } from '../../db/idempotency-keys.ts';
import type { IdempotencyKey } from '../../db/idempotency-keys.ts';
import type { ProcessContext } from '../process-context.ts';

/** A request that creates. `route` is its method and path; without a `key` nothing is remembered. */
export interface IdempotentRequest {
  tenantId: string;
  route: string;
  key?: string | undefined;
  /** Whatever makes it the same request; compared by its canonical JSON. */
  body: unknown;
  /** What is said where the key came with another body. */
  reused?: string;
}

export interface IdempotentAnswer<T> {
  status: number;
  body: T;
  /** The answer is that of an earlier request. */
  replayed: boolean;
}

/**
 * Does `work` once per `Idempotency-Key`, in the transaction that remembers its answer: what fails or crashes leaves
 * nothing behind, and concurrent requests with one key wait for the first. `store` replaces `body` in what is
 * remembered, for answers with a secret. Throws a `DroverError`: 400 for a malformed key, 422 if the key came with
 * another body.
 */
export async function idempotently<T>(
  context: Pick<ProcessContext, 'db'>,
  request: IdempotentRequest,
  work: (tx: Tx) => Promise<{ status: number; body: T; store?: unknown }>,
): Promise<IdempotentAnswer<T>> {
  const used = usedKey(request);
  return context.db.withTenant(request.tenantId, async (tx) => {
    if (!used) {
      const { status, body } = await work(tx);
      return { status, body, replayed: false };
    }
    const digest = digestOf(request.body ?? null);
    if (!(await claimIdempotencyKey(tx, used, digest)))
      return replay<T>(await readIdempotencyKey(tx, used), digest, request.reused);
    const { status, body, store } = await work(tx);
    await storeIdempotentAnswer(tx, used, { status, response: store === undefined ? body : store });
    // To the letter as whoever repeats it is answered.
    return { status, body: inJsonbOrder(body), replayed: false };
  });
}

/**
 * The answer that this request has had before, for work that has a costly part outside the transaction. Whoever gets
 * undefined goes on to `idempotently`, which decides. Throws as that does.
 */
export async function recallAnswer(
  context: Pick<ProcessContext, 'db'>,
  request: IdempotentRequest,
): Promise<IdempotentAnswer<unknown> | undefined> {
  const used = usedKey(request);
  const earlier = used && (await context.db.withTenant(request.tenantId, (tx) => readIdempotencyKey(tx, used)));
  return earlier && replay(earlier, digestOf(request.body ?? null), request.reused);
}

/** The answer that was remembered under a key, whatever it came with; undefined if there is none. */
export async function findAnswer(
  context: Pick<ProcessContext, 'db'>,
  request: Omit<IdempotentRequest, 'body'>,
): Promise<unknown> {
  const used = usedKey(request);
  const earlier = used && (await context.db.withTenant(request.tenantId, (tx) => readIdempotencyKey(tx, used)));
  return earlier?.response;
}

function usedKey({ tenantId, route, key }: Omit<IdempotentRequest, 'body'>): IdempotencyKey | undefined {
  const checked = checkedKey({ key });
  return checked === undefined ? undefined : { tenantId, route, key: checked };
}

/** The key of a request. Throws 400 for a malformed one. */
export function checkedKey({ key }: Pick<IdempotentRequest, 'key'>): string | undefined {
  if (key === undefined || /^[\x21-\x7e]{1,255}$/.test(key)) return key;
  const message = 'must be 1 to 255 visible ASCII characters';
  throw badRequest(`Idempotency-Key ${message}.`, [{ path: 'header.idempotency-key', message }]);
}

type Remembered = Awaited<ReturnType<typeof readIdempotencyKey>>;

const REUSED = 'This Idempotency-Key was used for another request; a new request needs a key of its own.';

function replay<T>(earlier: Remembered, digest: string, reused = REUSED): IdempotentAnswer<T> {
  if (!earlier) throw new Error('An idempotency key was taken and is not there: it was swept in between.');
  if (earlier.digest !== digest) {
    throw impossible(reused);
  }
  return { status: earlier.status, body: earlier.response as T, replayed: true };
}
