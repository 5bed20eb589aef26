/** Acts of maintenance: when each is due, and which process does it. */
import type { Database } from './database.ts';

/** Claims the acts that are due, and sets their next time; `everyMs`: the acts known to this build. One round trip. */
export async function claimDueActs<A extends string>(db: Database, everyMs: Record<A, number>): Promise<A[]> {
  const claimed = await db.asMaintenance((tx) =>
    tx.query<{ act: A }>(
      `update maintenance_acts m set due_at = clock_timestamp() + ($1::jsonb->>m.act)::int * interval '1 ms'
         where m.act in (select act from maintenance_acts
           where due_at <= clock_timestamp() and $1::jsonb ? act for update skip locked)
         returning m.act`,
      [JSON.stringify(everyMs)],
    ),
  );
  return claimed.map(({ act }) => act);
}

/** Makes claimed acts that were not sent due again at once. */
export async function giveBackActs(db: Database, acts: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) =>
    tx.query('update maintenance_acts set due_at = clock_timestamp() where act = any($1::text[])', [acts]),
  );
}

/** Claims an act early, unless it was claimed within `recentMs`, so that only one of many starting processes does it. */
export async function claimEarly(
  db: Database,
  { act, everyMs, recentMs }: { act: string; everyMs: number; recentMs: number },
): Promise<boolean> {
  const claimed = await db.asMaintenance((tx) =>
    tx.query(
      `insert into maintenance_acts as m (act, due_at) values ($1, clock_timestamp() + $2 * interval '1 ms')
         on conflict (act) do update set due_at = excluded.due_at where m.due_at < excluded.due_at - $3 * interval '1 ms'
         returning m.act`,
      [act, everyMs, recentMs],
    ),
  );
  return claimed.length > 0;
}

/** Inserts acts not known to the database yet; they are due at once. */
export async function addActs(db: Database, acts: readonly string[]): Promise<void> {
  await db.asMaintenance((tx) =>
    tx.query(
      `insert into maintenance_acts select act, clock_timestamp() from unnest($1::text[]) act on conflict do nothing`,
      [acts],
    ),
  );
}

/** How many seconds the first of these acts is overdue, by database time; 0 if none is. */
export async function readOverdueSeconds(db: Database, acts: readonly string[]): Promise<number> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<{ seconds: number }>(
      `select coalesce(extract(epoch from greatest(max(clock_timestamp() - due_at), interval '0')), 0)::float8 as seconds
         from maintenance_acts where act = any($1::text[])`,
      [acts],
    ),
  );
  return row?.seconds ?? 0;
}
