/** Numbers of waiting runs, for monitoring all tenants. */
import type { Database } from './database.ts';

/** Maximum to count. Uses the index `runs_dormant`. */
const MOST_COUNTED = 100_000;

/** Counts runs that are dormant in the middle of a turn, by what they wait for. */
export async function countWaitingRuns(db: Database): Promise<{ reason: string; count: number }[]> {
  return db.asMaintenance((tx) =>
    tx.query<{ reason: string; count: number }>(
      `select reason, count(*)::int as count from (
         select case waiting_for->>'type' when 'tool_results' then 'client_tools'
           else coalesce(waiting_for->>'type', status) end as reason from runs where open_turn_id is not null and dormant
           and status not in ('completed', 'failed', 'cancelled') limit $1) r group by 1`,
      [MOST_COUNTED],
    ),
  );
}
