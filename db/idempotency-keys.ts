import type { Tx } from './database.ts';
import { LIMITS } from '../core/limits.ts';

/** A use of an `Idempotency-Key`: unique per tenant and route. */
export interface IdempotencyKey {
  tenantId: string;
  route: string;
  key: string;
}

/**
 * Claims the key for this transaction; false if it is taken. Waits for transactions that hold the same key, so a taken key has
 * its answer. Expired keys count as free, swept or not.
 */
export async function claimIdempotencyKey(tx: Tx, { tenantId, route, key }: IdempotencyKey, digest: string) {
  const rows = await tx.query(
    `insert into idempotency_keys (tenant_id, route, key, body_digest) values ($1, $2, $3, $4)
     on conflict (tenant_id, route, key) do update
       set body_digest = excluded.body_digest, status = null, response = null, created_at = now()
       where idempotency_keys.created_at < now() - make_interval(hours => $5)
     returning 1 as claimed`,
    [tenantId, route, key, digest, LIMITS.idempotencyHours],
  );
  return rows.length > 0;
}

/** The request digest and answer of a key; undefined if it is free. `status` is null while there is no answer. */
export async function readIdempotencyKey(tx: Tx, { tenantId, route, key }: IdempotencyKey) {
  const [row] = await tx.query<{ body_digest: string; status: number | null; response: unknown }>(
    `select body_digest, status, response from idempotency_keys
     where tenant_id = $1 and route = $2 and key = $3 and created_at >= now() - make_interval(hours => $4)`,
    [tenantId, route, key, LIMITS.idempotencyHours],
  );
  return row && { digest: row.body_digest, status: row.status, response: row.response };
}

/** Stores the answer for repeated requests, unless there is one. */
export async function storeIdempotentAnswer(
  tx: Tx,
  { tenantId, route, key }: IdempotencyKey,
  answer: { status: number; response: unknown },
): Promise<void> {
  await tx.query(
    `update idempotency_keys set status = $4, response = $5::jsonb
     where tenant_id = $1 and route = $2 and key = $3 and status is null`,
    [tenantId, route, key, answer.status, JSON.stringify(answer.response ?? null)],
  );
}

/** Frees a key without an answer, so that the request may be made again. */
export async function freeIdempotencyKey(tx: Tx, { tenantId, route, key }: IdempotencyKey): Promise<void> {
  await tx.query('delete from idempotency_keys where tenant_id = $1 and route = $2 and key = $3 and status is null', [
    tenantId,
    route,
    key,
  ]);
}
