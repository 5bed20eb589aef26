/** Jobs to send: written by `commit_run`, deleted once BullMQ has them. */
import type { ParentJob } from './commit-run.ts';
import type { Database } from './database.ts';

interface OutboxEntry {
  id: string;
  queue: string;
  job_id: string;
  payload: Record<string, unknown>;
  parent: ParentJob | null;
}

/** The oldest due entries that have waited for at least `olderThanMs`, by database time. */
export async function listOutbox(db: Database, filter: { olderThanMs: number; limit: number }): Promise<OutboxEntry[]> {
  return db.asMaintenance((tx) =>
    tx.query<OutboxEntry>(
      `select id, queue, job_id, payload, parent from outbox
       where created_at < now() - $1 * interval '1 ms' and (not_before is null or not_before <= clock_timestamp()) order by id limit $2`,
      [filter.olderThanMs, filter.limit],
    ),
  );
}

/** Deletes sent entries. */
export async function deleteOutbox(db: Database, ids: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) => tx.query('delete from outbox where id = any($1::uuid[])', [ids]));
}
