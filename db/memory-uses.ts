/** Uses of agents' memory: where entries were recalled or told again, and how often. */
import type { Tx } from './database.ts';
import { shareMemoryOf, tryToShare } from './memory-lock.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

/** Where entries were used. */
export interface MemoryUse {
  tenantId: string;
  agentId: string;
  operation: 'turn' | 'recall' | 'query';
  runId?: string | undefined;
  turnId?: string | undefined;
}

/** Records and counts all uses of one recall. False if only recorded, since the agent's memory is being changed. */
export async function countAccesses(
  tx: Tx,
  use: MemoryUse,
  hits: readonly { access: string; id: string; score: number; why: object }[],
): Promise<boolean> {
  const ids = hits.map(({ id }) => id);
  // Sent together: if one fails, so do those after it.
  const noted = tx.query(
    `insert into memory_accesses (id, tenant_id, memory_id, agent_id, run_id, turn_id, operation, score, why)
     select r.access, $1, r.id, $2, $3, $4, $5, r.score, r.why
       from jsonb_to_recordset($6::jsonb) as r (access uuid, id uuid, score float8, why jsonb)`,
    [use.tenantId, use.agentId, use.runId ?? null, use.turnId ?? null, use.operation, JSON.stringify(hits)],
  );
  // In a fixed order, so that two recalls never deadlock.
  const counted = tx.query<{ is_free: boolean }>(
    `with free as materialized (select ${tryToShare('$2')} as is_free),
      used as (select id from memory_entries where id = any($1::uuid[]) and (select is_free from free)
        order by id for no key update),
      counted as (update memory_entries e set access_count = e.access_count + 1, last_accessed = now()
        from used where e.id = used.id)
     select is_free from free`,
    [ids, use.agentId],
  );
  const [, [row]] = await Promise.all([noted, counted]);
  return row?.is_free ?? false;
}

/** Records that a run told something already remembered. */
export async function noteWrite(
  tx: Tx,
  of: { access: string; tenantId: string; agentId: string; runId?: string | undefined; id: string },
): Promise<void> {
  await tx.query(
    `insert into memory_accesses (id, tenant_id, memory_id, agent_id, run_id, operation) values ($1, $2, $3, $4, $5, 'write')`,
    [of.access, of.tenantId, of.id, of.agentId, of.runId ?? null],
  );
}

/** Counts uses that were left out, once no change is in progress. */
export async function countLeftUses(
  tx: Tx,
  { agentId, take }: { agentId: string; take: () => { id: string; uses: number }[] },
): Promise<void> {
  await shareMemoryOf(tx, agentId);
  await tx.query(
    `update memory_entries e set access_count = e.access_count + r.uses, last_accessed = now()
       from (select e.id, r.uses from jsonb_to_recordset($1::jsonb) as r (id uuid, uses int)
         join memory_entries e on e.id = r.id order by e.id for no key update of e) r where e.id = r.id`,
    [JSON.stringify(take())],
  );
}

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
