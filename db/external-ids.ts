/** What clients call things of their own, in a workspace. */
import type { Tx } from './database.ts';

/** Until the transaction ends nobody else gives this name, or takes it away. */
export async function lockExternalId(tx: Tx, workspaceId: string, externalId: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:external:' || $1 || ':' || $2, 0))`, [
    workspaceId,
    externalId,
  ]);
}

export async function findAgentByExternalId(
  tx: Tx,
  workspaceId: string,
  externalId: string,
): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>('select id from agents where workspace_id = $1 and external_id = $2', [
    workspaceId,
    externalId,
  ]);
  return row?.id;
}

export async function setAgentExternalId(tx: Tx, id: string, externalId: string | null): Promise<void> {
  await tx.query('update agents set external_id = $2, updated_at = now() where id = $1', [id, externalId]);
}

export async function findThreadByExternalId(
  tx: Tx,
  workspaceId: string,
  externalId: string,
): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>('select id from threads where workspace_id = $1 and external_id = $2', [
    workspaceId,
    externalId,
  ]);
  return row?.id;
}

export async function setThreadExternalId(tx: Tx, id: string, externalId: string | null): Promise<void> {
  await tx.query('update threads set external_id = $2, updated_at = now() where id = $1', [id, externalId]);
}
