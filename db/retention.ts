/**
 * Rows that serve nothing any more. The logs are not among them, nor what is made of them (`core/projections.ts`): those stay
 * as long as their run.
 */
import type { Database } from './database.ts';

const ENDED = `('completed', 'failed', 'cancelled')`;

/** Ids are UUIDv7, whose order is that of time: what is younger is not even looked at. `$1` are hours. */
const BEFORE = `uuid_floor(current_date + 1 - ($1 / 24)::int)`;
const OLD = `now() - $1 * interval '1 hour'`;

/** By table: what may be forgotten of it, as a condition on its row `t`. */
const FORGETTABLE = {
  idempotency_keys: `t.created_at < ${OLD}`,
  // A commit may have added one while its webhook was deleted: nobody sends it.
  webhook_deliveries: `t.created_at < ${OLD}
    and (t.status <> 'pending' or not exists (select from webhooks w where w.id = t.webhook_id))`,
  // Of a task that is over, once nothing is left to be told.
  webhooks: `t.run_id is not null and exists (select from runs r where r.id = t.run_id and r.status in ${ENDED} and r.completed_at < ${OLD})
    and not exists (select from webhook_deliveries d where d.webhook_id = t.id and d.status = 'pending')`,
  waits: `t.id < ${BEFORE} and t.closed_at < ${OLD}`,
  // A run that has ended takes no new signals; those that it had are known to it until then.
  signals: `t.run_id < ${BEFORE} and exists (select from runs r where r.id = t.run_id and r.status in ${ENDED} and r.completed_at < ${OLD})`,
  // The budget of a run counts those of all runs under its root.
  reservations: `t.run_id < ${BEFORE} and t.rolled_up and t.settled_at < ${OLD}
    and not exists (select from runs r where r.id in (t.run_id, t.root_run_id) and r.status not in ${ENDED})`,
  // Whoever compares reservations with the calls finds those for as long as them.
  own_model_calls: `t.created_at < ${OLD} and t.state <> 'open'`,
  // Whoever forgets a memory finds the runs that were given it by them: those go with what is erased of their run.
  memory_accesses: `t.accessed_at < ${OLD} and t.run_id is null`,
  // The run's log shows what has changed something, as long as there is the run.
  memory_extractions: `t.status = 'done' and t.added = '{}' and t.superseded = '{}' and t.finished_at < ${OLD}`,
  // Nobody waits for its end: nobody uses the credential any more.
  model_outages: `t.next_at < ${OLD} and not exists (select from parked_runs p where p.outage = t.name)`,
  rate_counts: `t.until < ${OLD}`,
} as const;

export type Forgettable = keyof typeof FORGETTABLE;

/** Deletes at most `limit` rows of a table that have been over for so many hours, over all tenants; answers how many. */
export async function forgetOld(
  db: Database,
  { table, hours, limit }: { table: Forgettable; hours: number; limit: number },
): Promise<number> {
  // Whoever may read some columns alone may not ask for the place of a row.
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
