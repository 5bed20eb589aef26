/** Counts of requests in time windows, shared by all API processes without Redis. */
import type { Database, Tx } from './database.ts';

/**
 * Counts requests that came together; returns the count in the current window, and when the window ends. The first request after
 * that begins the next one. Uses database time, common to all processes.
 */
export async function addToRateCount(
  db: Database,
  counted: { name: string; windowSeconds: number; times?: number | undefined },
): Promise<{ used: number; resetMs: number }> {
  const [row] = await db.call<{ used: number; ms: number }>({
    name: 'add_to_rate_count',
    text: `insert into rate_counts as r (name, used, until) values ($1, $3, clock_timestamp() + $2 * interval '1 second')
      on conflict (name) do update set
        used = case when r.until <= clock_timestamp() then excluded.used else least(r.used, 2000000000) + excluded.used end,
        until = case when r.until <= clock_timestamp() then excluded.until else r.until end
      returning used, ceil(extract(epoch from until - clock_timestamp()) * 1000)::int as ms`,
    values: [counted.name, counted.windowSeconds, counted.times ?? 1],
  });
  if (!row) throw new Error('A count did not come back.');
  return { used: row.used, resetMs: row.ms };
}

/**
 * Takes calls from each limit per minute, as many of the wanted ones as are left; returns the numbers by name. Concurrent
 * callers wait, so that the limit is never exceeded in total.
 */
export async function takeCalls(
  tx: Tx,
  counts: readonly { name: string; wanted: number; most: number }[],
): Promise<ReadonlyMap<string, number>> {
  // In a fixed order, so that two callers never deadlock.
  const ordered = counts.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const rows = await tx.query<{ name: string; taken: number }>(
    `select c.name, take_calls(c.name, c.wanted, c.most) as taken
     from unnest($1::text[], $2::int[], $3::int[]) as c (name, wanted, most)`,
    [ordered.map(({ name }) => name), ordered.map(({ wanted }) => wanted), ordered.map(({ most }) => most)],
  );
  return new Map(rows.map(({ name, taken }) => [name, taken]));
}
