/** Counts of requests within windows of time, which all API processes share where there is no Redis. */
import type { Database, Tx } from './database.ts';

/**
 * Counts one more; answers how many there are in the window now, and when it ends. The first after the end of a window
 * begins the next. By the database's clock, which is the same for all.
 */
export async function addToRateCount(
  db: Database,
  counted: { name: string; windowSeconds: number },
): Promise<{ used: number; resetMs: number }> {
  const [row] = await db.call<{ used: number; ms: number }>({
    name: 'add_to_rate_count',
    text: `insert into rate_counts as r (name, used, until) values ($1, 1, clock_timestamp() + $2 * interval '1 second')
      on conflict (name) do update set
        used = case when r.until <= clock_timestamp() then 1 else least(r.used, 2000000000) + 1 end,
        until = case when r.until <= clock_timestamp() then excluded.until else r.until end
      returning used, ceil(extract(epoch from until - clock_timestamp()) * 1000)::int as ms`,
    values: [counted.name, counted.windowSeconds],
  });
  if (!row) throw new Error('A count did not come back.');
  return { used: row.used, resetMs: row.ms };
}

/**
 * Takes calls out of what the last minute permits of each, as many of the wanted ones as there are; answers how many by name.
 * Whoever takes at the same time waits: all together never have more than the most.
 */
export async function takeCalls(
  tx: Tx,
  counts: readonly { name: string; wanted: number; most: number }[],
): Promise<ReadonlyMap<string, number>> {
  // In one order, so that two who take of several never wait for each other.
  const ordered = counts.toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const rows = await tx.query<{ name: string; taken: number }>(
    `select c.name, take_calls(c.name, c.wanted, c.most) as taken
     from unnest($1::text[], $2::int[], $3::int[]) as c (name, wanted, most)`,
    [ordered.map(({ name }) => name), ordered.map(({ wanted }) => wanted), ordered.map(({ most }) => most)],
  );
  return new Map(rows.map(({ name, taken }) => [name, taken]));
}
