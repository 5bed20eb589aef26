/** A2A push notification configs of tasks: webhooks for a single run. */
import type { Tx } from './database.ts';
import type { RunStatus } from '../core/events.ts';
import { edgeEvent } from './run-log.ts';

/** Encrypted content of each message. */
interface Sealed {
  keyId: string;
  sealed: Buffer;
}

export interface PushConfigRow {
  /** The webhook's id. */
  id: string;
  run_id: string;
  /** The client's own id. */
  push_id: string;
  url: string;
  created_at: Date;
}

const COLUMNS = 'id, run_id, push_id, url, created_at';

/** Status of a run, locked until the transaction ends, so that nothing is committed to its log. */
export async function holdRunStatus(tx: Tx, runId: string): Promise<RunStatus | undefined> {
  const [row] = await tx.query<{ status: RunStatus }>('select status from runs where id = $1 for share', [runId]);
  return row?.status;
}

/** Inserts or replaces a config by name; a disabled webhook becomes active again. */
export async function putPushConfig(
  tx: Tx,
  config: Omit<PushConfigRow, 'created_at'> &
    Sealed & { tenantId: string; workspaceId: string; events: readonly string[] },
): Promise<PushConfigRow> {
  const [row] = await tx.query<PushConfigRow>(
    `insert into webhooks as w (id, tenant_id, workspace_id, url, events, status, run_id, push_id, token_key_id, token_sealed)
     values ($1, $2, $3, $4, $5, 'active', $6, $7, $8, $9)
     on conflict (run_id, push_id) where run_id is not null do update set url = excluded.url, token_key_id = excluded.token_key_id,
       token_sealed = excluded.token_sealed, status = 'active', disabled_reason = null,
       failing_since = null, failures = 0, next_at = null, updated_at = now()
     returning ${COLUMNS}`,
    [
      config.id,
      config.tenantId,
      config.workspaceId,
      config.url,
      [...config.events],
      config.run_id,
      config.push_id,
      config.keyId,
      config.sealed,
    ],
  );
  if (!row) throw new Error('An inserted configuration did not come back.');
  return row;
}

/** All configs of a run, oldest first. */
export async function listPushConfigs(tx: Tx, runId: string): Promise<PushConfigRow[]> {
  return tx.query<PushConfigRow>(`select ${COLUMNS} from webhooks where run_id = $1 order by created_at, id`, [runId]);
}

/** A page, by id, of the tenant's configs encrypted under another key than `keyId`. */
export async function listPushTokensUnderOtherKeys(
  tx: Tx,
  { keyId, after, limit }: { keyId: string; after: string | undefined; limit: number },
): Promise<{ id: string; run_id: string; push_id: string; key_id: string; sealed: Buffer }[]> {
  return tx.query(
    `select id, run_id, push_id, token_key_id as key_id, token_sealed as sealed from webhooks
     where run_id is not null and token_key_id <> $1 and ($2::uuid is null or id > $2) order by id limit $3`,
    [keyId, after ?? null, limit],
  );
}

/** Re-encrypts one; false if it was changed or deleted meanwhile. */
export async function resealPushToken(tx: Tx, id: string, change: { from: Buffer; to: Sealed }): Promise<boolean> {
  const rows = await tx.query(
    'update webhooks set token_key_id = $3, token_sealed = $4 where id = $1 and token_sealed = $2 returning id',
    [id, change.from, change.to.keyId, change.to.sealed],
  );
  return rows.length > 0;
}

/** Number of the tenant's configs. */
export async function countPushConfigs(tx: Tx): Promise<number> {
  const [row] = await tx.query<{ count: number }>(
    'select count(*)::int as count from webhooks where run_id is not null',
  );
  return row?.count ?? 0;
}

/** Adds a delivery of the run's last event of these types. */
export async function deliverLastEvent(
  tx: Tx,
  of: { tenantId: string; webhookId: string; runId: string; types: readonly string[] },
): Promise<void> {
  await tx.query(
    `insert into webhook_deliveries (id, tenant_id, webhook_id, run_id, seq, type, status)
     select gen_random_uuid(), $1, $2, $3, e.seq, e.type, 'pending'
       from ${edgeEvent('last', { run: '$3', where: 'e.type = any($4)' })} e`,
    [of.tenantId, of.webhookId, of.runId, [...of.types]],
  );
}
