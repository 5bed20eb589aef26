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

/** Sent jobs are deleted within this time: older rows wait for their queue. */
const SENT_SECONDS = 5;

const MOST_OUTBOX = 100_000;

/** The number of due jobs not in the queue, counted up to 100,000, and the age of the oldest, in seconds. */
export async function readOutboxState(db: Database): Promise<{ jobs: number; age_seconds: number }> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ jobs: number; age_seconds: number }>(
      `select count(*)::int as jobs, coalesce(extract(epoch from clock_timestamp() - min(due)), 0)::float8 as age_seconds from (
         select coalesce(not_before, created_at) as due from outbox
           where coalesce(not_before, created_at) < clock_timestamp() - $1 * interval '1 second' limit $2) waiting`,
      [SENT_SECONDS, MOST_OUTBOX],
    ),
  );
  return row ?? { jobs: 0, age_seconds: 0 };
}
