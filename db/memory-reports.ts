/** Reports on agents' memory: where entries were used, and total usage. */
import type { MemoryStatus, MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { OWN_USAGE, type OwnUsageRow } from './own-model-calls.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export interface MemoryUseRow {
  id: string;
  memory_id: string;
  agent_id: string | null;
  run_id: string | null;
  turn_id: string | null;
  operation: 'turn' | 'recall' | 'query' | 'write' | 'search' | 'resolve';
  score: number | null;
  why: Record<string, number> | null;
  accessed_at: Date;
}

/** A page of the uses of an entry, newest first. */
export async function listMemoryUses(
  tx: Tx,
  page: { memoryId: string; before?: string | undefined; limit: number },
): Promise<MemoryUseRow[]> {
  const query = selectFrom(
    'id, memory_id, agent_id, run_id, turn_id, operation, score, why, accessed_at',
    'memory_accesses',
    [
      ['memory_id', '=', page.memoryId],
      ['id', '<', page.before],
    ],
  );
  return fetchRows<MemoryUseRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

export interface MemoryUsage {
  entries: { memory_type: MemoryType; status: MemoryStatus; count: number; tokens: number }[];
  refused: Record<string, number>;
  /** By purpose: calls made for remembering. */
  model_calls: OwnUsageRow[];
}

/** An agent's number of memories, texts refused by rules, and model calls. */
export async function readMemoryUsage(tx: Tx, agentId: string): Promise<MemoryUsage> {
  const entries = await tx.query<MemoryUsage['entries'][number]>(
    `select memory_type, status, count(*) as count, sum(tokens)::bigint as tokens from memory_entries where agent_id = $1
      group by memory_type, status order by memory_type, status`,
    [agentId],
  );
  const refused = await tx.query<{ rule: string; count: number }>(
    `select r.key as rule, sum(r.value::int)::bigint as count from memory_extractions x cross join jsonb_each_text(x.refused) r
      where x.agent_id = $1 group by r.key order by r.key`,
    [agentId],
  );
  const calls = await tx.query<OwnUsageRow>(
    `select purpose, ${OWN_USAGE}
       from own_model_calls where agent_id = $1 and state <> 'released' and purpose in ('memories', 'memory_summary', 'contradiction')
      group by purpose order by purpose`,
    [agentId],
  );
  return { entries, refused: Object.fromEntries(refused.map(({ rule, count }) => [rule, count])), model_calls: calls };
}
