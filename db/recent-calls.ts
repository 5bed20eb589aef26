import type { Tx } from './database.ts';

/** How often an agent's runs have called each of these tools in the last minute; those that were denied do not count. Of other runs than this one, those that began since yesterday. */
export async function countRecentCalls(
  tx: Tx,
  { agentId, runId, names }: { agentId: string; runId: string; names: readonly string[] },
): Promise<ReadonlyMap<string, number>> {
  const rows = await tx.query<{ name: string; calls: number }>(
    `select k.name, count(*)::int as calls from runs r join tool_calls k on k.run_id = r.id
     where r.agent_id = $1 and (r.id > uuid_floor(current_date - 1) or r.id = $3) and r.updated_at > clock_timestamp() - interval '1 minute' and k.name = any($2)
       and k.created_at > clock_timestamp() - interval '1 minute' and k.status <> 'denied' group by k.name`,
    [agentId, names, runId],
  );
  const counted = new Map(rows.map(({ name, calls }) => [name, calls]));
  return new Map(names.map((name) => [name, counted.get(name) ?? 0]));
}
