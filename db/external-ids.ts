/** Clients' own ids of objects, unique within a workspace. */
import type { Tx } from './database.ts';

/** Locks an id until the transaction ends, so that nobody else sets or removes it. */
export async function lockExternalId(tx: Tx, workspaceId: string, externalId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:external:' || $1 || ':' || $2, 0))`, [
    workspaceId,
    externalId,
  ]);
}

/** Objects with such ids, by table. */
type Named = 'agents' | 'threads';

export async function findByExternalId(
  tx: Tx,
  table: Named,
  { workspaceId, externalId }: { workspaceId: string; externalId: string },
): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(`select id from ${table} where workspace_id = $1 and external_id = $2`, [
    workspaceId,
    externalId,
  ]);
  return row?.id;
}

/** Null removes the id. */
export async function setExternalId(
  tx: Tx,
  table: Named,
  { id, externalId }: { id: string; externalId: string | null },
): Promise<void> {
  await tx.query(`update ${table} set external_id = $2, updated_at = now() where id = $1`, [id, externalId]);
}
