/** Requests identified by their sender. */
import type { Tx } from './database.ts';

/**
 * Claims a request id for this transaction. Undefined if it was free, otherwise its run and the digest of the request. Waits
 * for transactions that hold the same id.
 */
export async function claimObjective(
  tx: Tx,
  { tenantId, requestId, digest }: { tenantId: string; requestId: string; digest: string },
): Promise<{ run_id: string; body_digest: string } | undefined> {
  const claimed = await tx.query(
    `insert into objectives (tenant_id, request_id, body_digest) values ($1, $2, $3)
     on conflict do nothing returning 1 as claimed`,
    [tenantId, requestId, digest],
  );
  if (claimed.length > 0) return undefined;
  const [earlier] = await tx.query<{ run_id: string; body_digest: string }>(
    'select run_id, body_digest from objectives where request_id = $1',
    [requestId],
  );
  if (!earlier) throw new Error('a request id was taken and is not there');
  return earlier;
}

/** Links a request to its run. */
export async function linkObjective(tx: Tx, requestId: string, runId: string): Promise<void> {
  await tx.query('update objectives set run_id = $2 where request_id = $1', [requestId, runId]);
}
