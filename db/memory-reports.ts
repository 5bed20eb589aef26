/** Reports on how much agents remember. */
import type { MemoryStatus, MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { OWN_USAGE, type OwnUsageRow } from './own-model-calls.ts';

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
       from own_model_calls where agent_id = $1 and state <> 'released' and purpose in ('memories', 'memory_summary', 'contradiction', 'memory_embeddings', 'recall_embeddings')
      group by purpose order by purpose`,
    [agentId],
  );
  return { entries, refused: Object.fromEntries(refused.map(({ rule, count }) => [rule, count])), model_calls: calls };
}
