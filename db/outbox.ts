/** Jobs to send: written by `commit_run`, deleted once BullMQ has them. */
import type { ParentJob } from './commit-run.ts';
import type { Database } from './database.ts';

export interface OutboxEntry {
  id: string;
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
  /** Until it may run, in ms; 0 if that time has come. */
  delay_ms: number;
  parent: ParentJob | null;
}

/** The oldest entries that have lain there for a while. */
export async function listOutbox(db: Database, filter: { olderThanMs: number; limit: number }): Promise<OutboxEntry[]> {
  return db.asMaintenance((tx) =>
    tx.query<OutboxEntry>(
      `select id, queue, job_id, payload, parent,
         coalesce(greatest(0, ceil(extract(epoch from not_before - clock_timestamp()) * 1000)), 0)::float8 as delay_ms
       from outbox where created_at < now() - $1 * interval '1 ms' order by id limit $2`,
      [filter.olderThanMs, filter.limit],
    ),
  );
}

/** Forgets entries that were sent. */
export async function deleteOutbox(db: Database, ids: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) => tx.query('delete from outbox where id = any($1::uuid[])', [ids]));
}
