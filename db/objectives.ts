/** Requests identified by their sender. */
import type { Tx } from './database.ts';

/** What stands for the `request_id` of an erased run: enough to know it again. */
const erasedId = (tenantId: string, requestId: string) =>
  `'erased:' || encode(sha256(convert_to(${tenantId}::text || ':' || ${requestId}, 'UTF8')), 'hex')`;

/**
 * Erases the request ids of run `$1`. A process of the build before does not know an erased one, and may have begun another run
 * for it: of these the first is kept.
 */
export const ERASE_OBJECTIVES = `with erased as (delete from objectives where run_id = $1 returning *)
  insert into objectives (tenant_id, request_id, body_digest, run_id, created_at)
    select tenant_id, ${erasedId('tenant_id', 'request_id')}, body_digest, run_id, created_at from erased on conflict do nothing`;

/**
 * Claims a request id for this transaction. Undefined if it was free, otherwise its run, which may be erased, and the digest of
 * the request. Waits for transactions that hold the same id.
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
  const isClaimed = claimed.length > 0;
  // Only after the claim, which may have waited for an erasure.
  const [earlier] = await tx.query<{ run_id: string; body_digest: string }>(
    `select run_id, body_digest from objectives
     where request_id in ($2, ${erasedId('$1::uuid', '$2::text')}) and run_id is not null order by request_id = $2 desc limit 1`,
    [tenantId, requestId],
  );
  if (isClaimed && earlier)
    await tx.query('delete from objectives where request_id = $1 and run_id is null', [requestId]);
  if (!isClaimed && !earlier) throw new Error('a request id was taken and is not there');
  return earlier;
}

/** Links a request to its run. */
export async function linkObjective(tx: Tx, requestId: string, runId: string): Promise<void> {
  await tx.query('update objectives set run_id = $2 where request_id = $1', [requestId, runId]);
}
