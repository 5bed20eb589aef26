/**
 * Deletes rows that are no longer needed. Logs and their projections (`core/projections.ts`) are not among them: they are kept
 * as long as their run.
 */
import type { Database } from './database.ts';

const ENDED = `('completed', 'failed', 'cancelled')`;

/** Ids are UUIDv7, ordered by time, so younger rows are skipped. `$1`: age in hours. */
const BEFORE = `uuid_floor(current_date + 1 - ($1 / 24)::int)`;
const OLD = `now() - $1 * interval '1 hour'`;

/** Condition on a row `t` of each table: it may be deleted. */
const FORGETTABLE = {
  idempotency_keys: `t.created_at < ${OLD}`,
  // A commit may have added a delivery while its webhook was deleted: nobody sends it.
  webhook_deliveries: `t.created_at < ${OLD}
    and (t.status <> 'pending' or not exists (select from webhooks w where w.id = t.webhook_id))`,
  // Webhooks of a finished task without pending deliveries.
  webhooks: `t.run_id is not null and exists (select from runs r where r.id = t.run_id and r.status in ${ENDED} and r.completed_at < ${OLD})
    and not exists (select from webhook_deliveries d where d.webhook_id = t.id and d.status = 'pending')`,
  waits: `t.id < ${BEFORE} and t.closed_at < ${OLD}`,
  // A run that has ended takes no new signals; those that it had are known to it until then.
  signals: `t.run_id < ${BEFORE} and exists (select from runs r where r.id = t.run_id and r.status in ${ENDED} and r.completed_at < ${OLD})`,
  // A root run's budget counts all runs below it.
  reservations: `t.run_id < ${BEFORE} and t.rolled_up and t.settled_at < ${OLD}
    and not exists (select from runs r where r.id in (t.run_id, t.root_run_id) and r.status not in ${ENDED})`,
  // Comparisons of reservations with calls look back as far.
  own_model_calls: `t.created_at < ${OLD} and t.state <> 'open'`,
  // Accesses of runs stay until the run is erased, since forgetting a memory finds the runs by them.
  memory_accesses: `t.accessed_at < ${OLD} and t.run_id is null`,
  // Extractions that changed something belong to the run's log view, as long as the run exists.
  memory_extractions: `t.status = 'done' and t.added = '{}' and t.superseded = '{}' and t.finished_at < ${OLD}`,
  // No run waits for its end: the credential is out of use.
  model_outages: `t.next_at < ${OLD} and not exists (select from parked_runs p where p.outage = t.name)`,
  rate_counts: `t.until < ${OLD}`,
} as const;

export type Forgettable = keyof typeof FORGETTABLE;

/** Deletes up to `limit` rows of a table that have been obsolete for this many hours, in all tenants; returns how many. */
export async function forgetOld(
  db: Database,
  { table, hours, limit }: { table: Forgettable; hours: number; limit: number },
): Promise<number> {
  // With rights on some columns only, `ctid` may not be read.
  const key = table === 'webhooks' ? 'id' : 'ctid';
  const rows = await db.asMaintenance((tx) =>
    tx.query(
      `delete from ${table} where ${key} = any(array(select t.${key} from ${table} t where ${FORGETTABLE[table]} limit $2))
       returning 1 as one`,
      [hours, limit],
    ),
  );
  return rows.length;
}
