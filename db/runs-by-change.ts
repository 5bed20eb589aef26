/** Lists runs by last change. */
import type { Tx } from './database.ts';
import { fetchRows } from './query-builder.ts';
import { CHANGED_AT, findRunHeads, matching, type RunFilter, type RunHead } from './runs.ts';

/** Position in such a list: time of last change, and id. */
interface ChangePosition {
  at: string;
  id: string;
}

/**
 * A page of runs, last changed first; after `before`, if given. Reads all runs that match: an index on a column that every
 * commit changes would slow down every commit.
 */
export async function listRunsByChange(
  tx: Tx,
  { before, limit, ...filter }: Omit<RunFilter, 'before'> & { before?: ChangePosition | undefined },
): Promise<RunHead[]> {
  const query = matching('r.id', 'runs r', filter);
  if (before) void query.whereRaw(`(${CHANGED_AT}, r.id) < (?::timestamptz, ?::uuid)`, [before.at, before.id]);
  const found = await fetchRows<{ id: string }>(tx, query.orderByRaw(`${CHANGED_AT} desc, r.id desc`).limit(limit));
  const rows = await findRunHeads(
    tx,
    found.map(({ id }) => id),
  );
  const byId = new Map(rows.map((row) => [row.id, row]));
  return found.flatMap(({ id }) => byId.get(id) ?? []);
}
