import { badRequest, impossible } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import type { Tx } from '../../db/database.ts';
import { inJsonbOrder } from '../../db/jsonb-order.ts';
import {
  claimIdempotencyKey,
  freeIdempotencyKey,
  readIdempotencyKey,
  storeIdempotentAnswer,
} from '../../db/idempotency-keys.ts';
import type { IdempotencyKey } from '../../db/idempotency-keys.ts';
import type { ProcessContext } from '../process-context.ts';

/** A creating request. `route` is its method and path; without a `key` nothing is stored. */
export interface IdempotentRequest {
  tenantId: string;
  route: string;
  key?: string | undefined;
  /** What identifies the request; compared by its canonical JSON. */
  body: unknown;
  /** The message if the key came with another body. */
  reused?: string;
}

export interface IdempotentAnswer<T> {
  status: number;
  body: T;
  /** Whether the answer is that of an earlier request. */
  replayed: boolean;
}

/**
 * Does `work` once per `Idempotency-Key`, in the transaction that stores its answer: a failure or crash leaves nothing
 * behind, and concurrent requests with one key wait for the first. `store` replaces `body` in storage, for answers with
 * a secret. An answer with texts of a run has the `id` of what it shows, by which erasure finds it. Throws a `DroverError`:
 * 400 for a malformed key, 422 if the key came with another body.
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
    // Exactly as a repeated request would get it.
    return { status, body: inJsonbOrder(body), replayed: false };
  });
}

/**
 * Makes a choice once per `Idempotency-Key`, before the work that follows from it: a repeated request, also of one that was cut
 * off, acts on what was chosen first. Without a key it is made each time. Throws as `idempotently` does.
 */
export async function chooseOnce<T>(
  context: Pick<ProcessContext, 'db'>,
  request: IdempotentRequest,
  choose: (tx: Tx) => Promise<T> | T,
): Promise<T> {
  const choice = { ...request, route: `${request.route} (choice)` };
  const { body } = await idempotently(context, choice, async (tx) => ({ status: 200, body: await choose(tx) }));
  return body;
}

/**
 * The stored answer to this request, for work with a costly part outside the transaction. If it is undefined, the
 * caller goes on to `idempotently`, which decides. Throws as that does.
 */
export async function recallAnswer(
  context: Pick<ProcessContext, 'db'>,
  request: IdempotentRequest,
): Promise<IdempotentAnswer<unknown> | undefined> {
  const used = usedKey(request);
  const earlier = used && (await context.db.withTenant(request.tenantId, (tx) => readIdempotencyKey(tx, used)));
  return earlier && replay(earlier, digestOf(request.body ?? null), request.reused);
}

/**
 * Claims the key of work whose effect is outside of the database, in a transaction that is committed before it. `begun`: a request
 * with the key was here before and has no answer, since its work is under way or was cut off. Throws as `idempotently` does.
 */
export async function claimWork<T>(tx: Tx, request: IdempotentRequest): Promise<'new' | 'begun' | IdempotentAnswer<T>> {
  const used = usedKey(request);
  const digest = digestOf(request.body ?? null);
  if (!used || (await claimIdempotencyKey(tx, used, digest))) return 'new';
  const earlier = await readIdempotencyKey(tx, used);
  if (earlier?.status === null && earlier.digest === digest) return 'begun';
  return replay<T>(earlier, digest, request.reused);
}

/** Ends such work: stores its answer; without one its key is free again. */
export async function endWork(
  tx: Tx,
  request: IdempotentRequest,
  answer: { status: number; body: unknown } | undefined,
): Promise<void> {
  const used = usedKey(request);
  if (!used) return;
  if (answer) await storeIdempotentAnswer(tx, used, { status: answer.status, response: answer.body });
  else await freeIdempotencyKey(tx, used);
}

/** The answer stored under a key, whatever the body; undefined if there is none. */
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
  if (earlier.status === null) throw new Error('An idempotency key was taken and has no answer.');
  return { status: earlier.status, body: earlier.response as T, replayed: true };
}
