/** Consolidations of agents' memory: their input, their changes, and how these are undone. */
import type { ConsolidationPlan, ShortTermEntry } from '../core/memory/consolidation.ts';
import type { MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { archiveMemories, restoreMemories } from './memory-archive.ts';
import { LIVE } from './memory-entries.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';

/** Changes made by a consolidation. */
interface ConsolidationDiff {
  /** With their previous values, and the importance set. */
  kept: { id: string; memory_type: MemoryType; importance: number; importance_since?: number }[];
  summarized: { id: string; from: string }[];
  merged: { id: string; into: string; access_count: number; last_accessed: string | null }[];
  evicted: string[];
  /** Number of entries evicted without an archive: they cannot be restored. */
  lost: number;
  procedural: string[];
}

export interface ConsolidationRow {
  id: string;
  agent_id: string;
  strategy: string;
  inputs: Record<string, unknown>;
  diff: ConsolidationDiff;
  consolidated: number;
  evicted: number;
  key_id: string | null;
  created_at: Date;
  reverted_at: Date | null;
  reverted_by: string | null;
}

const COLUMNS =
  'id, agent_id, strategy, inputs, diff, consolidated, evicted, key_id, created_at, reverted_at, reverted_by';

const SHORT_TERM = `select id, content, memory_type, importance, relevance_score, access_count, last_accessed, created_at, tokens, is_profile,
  status = 'disputed' as is_disputed from memory_entries where agent_id = $1 and memory_type = 'SHORT_TERM' and ${LIVE}`;

/** Live short-term entries, oldest first. */
export async function listShortTerm(tx: Tx, agentId: string, limit: number): Promise<ShortTermEntry[]> {
  return tx.query<ShortTermEntry>(`${SHORT_TERM} order by id limit $2`, [agentId, limit]);
}

/** Those of these that are still live and of the short term, locked, in the given order. */
export async function lockShortTerm(tx: Tx, agentId: string, ids: readonly string[]): Promise<ShortTermEntry[]> {
  const locked = `${SHORT_TERM} and id = any($2::uuid[]) order by id for update`;
  const rows = await tx.query<ShortTermEntry>(locked, [agentId, ids]);
  const places = new Map(ids.map((id, place) => [id, place]));
  return rows.toSorted((a, b) => (places.get(a.id) ?? 0) - (places.get(b.id) ?? 0));
}

/** Executes a plan and returns its changes; `summaries` has the id of each summary by that of its source. */
export async function applyPlan(
  tx: Tx,
  agentId: string,
  { plan, summaries, archive }: { plan: ConsolidationPlan; summaries: ReadonlyMap<string, string>; archive: boolean },
): Promise<ConsolidationDiff> {
  const kept = await tx.query<ConsolidationDiff['kept'][number]>(
    `update memory_entries e set memory_type = 'EPISODIC', importance = r.importance, updated_at = now()
       from jsonb_to_recordset($1::jsonb) as r (id uuid, importance float8), memory_entries b
      where e.id = r.id and b.id = e.id returning e.id, b.memory_type, b.importance, e.importance as importance_since`,
    [JSON.stringify(plan.kept)],
  );
  const merged = await tx.query<ConsolidationDiff['merged'][number]>(
    `select r.id, r.into, e.access_count, to_jsonb(b.last_accessed) #>> '{}' as last_accessed
       from jsonb_to_recordset($1::jsonb) as r (id uuid, "into" uuid) join memory_entries e on e.id = r.id join memory_entries b on b.id = r.into`,
    [JSON.stringify(plan.merged)],
  );
  await tx.query(
    `update memory_entries e set access_count = e.access_count + m.uses, last_accessed = greatest(e.last_accessed, m.last)
       from (select r.into, sum(s.access_count)::int as uses, max(s.last_accessed) as last
         from jsonb_to_recordset($1::jsonb) as r (id uuid, "into" uuid) join memory_entries s on s.id = r.id group by r.into) m
      where e.id = m.into`,
    [JSON.stringify(plan.merged)],
  );
  const summarized = plan.summarized.map(({ id }) => ({ id: summaries.get(id) ?? id, from: id }));
  await archiveMemories(tx, { agentId, ids: plan.merged.map(({ id }) => id), reason: 'merged' });
  await archiveMemories(tx, { agentId, ids: summarized.map(({ from }) => from), reason: 'summarized' });
  if (archive) await archiveMemories(tx, { agentId, ids: plan.evicted, reason: 'evicted' });
  else await deleteEntries(tx, agentId, plan.evicted);
  const lost = archive ? 0 : plan.evicted.length;
  return { kept, summarized, merged, evicted: plan.evicted, lost, procedural: [] };
}

async function deleteEntries(tx: Tx, agentId: string, ids: readonly string[]): Promise<void> {
  await tx.query('delete from memory_terms where entry_id = any($1::uuid[])', [ids]);
  await tx.query('delete from memory_entries where agent_id = $1 and id = any($2::uuid[])', [agentId, ids]);
}

/**
 * Undoes a consolidation, except where things have changed since. Returns how many entries were restored, and which of them
 * come from the archive.
 */
export async function undoDiff(
  tx: Tx,
  agentId: string,
  diff: ConsolidationDiff,
): Promise<{ back: string[]; restored: number }> {
  const kept = await tx.query(
    `update memory_entries e set memory_type = r.memory_type, updated_at = now(),
        importance = case when e.importance = coalesce(r.importance_since, e.importance) then r.importance else e.importance end
       from jsonb_to_recordset($1::jsonb) as r (id uuid, memory_type text, importance float8, importance_since float8)
      where e.id = r.id and e.agent_id = $2 and e.memory_type = 'EPISODIC' returning e.id`,
    [JSON.stringify(diff.kept), agentId],
  );
  await tx.query(
    // A use since then is later than that of the merged entry.
    `update memory_entries e set access_count = greatest(0, e.access_count - m.uses),
        last_accessed = case when e.last_accessed = m.last then m.before else e.last_accessed end
       from (select r.into, sum(r.access_count)::int as uses, max(r.last_accessed) as before,
           max((a.entry->>'last_accessed')::timestamptz) as last
         from jsonb_to_recordset($1::jsonb) as r (id uuid, "into" uuid, access_count int, last_accessed timestamptz)
         left join memory_archive a on a.id = r.id group by r.into) m
      where e.id = m.into and e.agent_id = $2`,
    [JSON.stringify(diff.merged), agentId],
  );
  await deleteEntries(tx, agentId, [...diff.summarized.map(({ id }) => id), ...diff.procedural]);
  const archived = [...diff.summarized.map(({ from }) => from), ...diff.merged.map(({ id }) => id), ...diff.evicted];
  const back = await restoreMemories(tx, { agentId, ids: archived });
  return { back, restored: kept.length + back.length };
}

/** Stores the changes of a consolidation. */
export async function insertConsolidation(
  tx: Tx,
  row: Omit<ConsolidationRow, 'created_at' | 'reverted_at' | 'reverted_by'> & { tenant_id: string },
): Promise<void> {
  await tx.query(
    `insert into memory_consolidations (id, tenant_id, agent_id, strategy, inputs, diff, consolidated, evicted, key_id)
     values ($1, $2, $3, $4, $5::jsonb, $6::jsonb, $7, $8, $9)`,
    [
      row.id,
      row.tenant_id,
      row.agent_id,
      row.strategy,
      JSON.stringify(row.inputs),
      JSON.stringify(row.diff),
      row.consolidated,
      row.evicted,
      row.key_id,
    ],
  );
}

/** A page of an agent's consolidations, newest first; limited in size, too. */
export async function listConsolidations(
  tx: Tx,
  page: { agentId: string; before?: string | undefined; limit: number },
): Promise<Page<ConsolidationRow>> {
  const columns = `${COLUMNS}, json_bytes(inputs) + json_bytes(diff) as bytes`;
  const query = selectFrom(columns, 'memory_consolidations', [
    ['agent_id', '=', page.agentId],
    ['id', '<', page.before],
  ]);
  const { sql, bindings } = query
    .orderBy('id', 'desc')
    .limit(page.limit + 1)
    .toSQL()
    .toNative();
  return pageOfSized(await tx.query<ConsolidationRow & Sized>(untilFull(sql, 'id desc'), bindings), page.limit);
}

/** A consolidation, locked; undefined if there is none. */
export async function lockConsolidation(
  tx: Tx,
  of: { agentId: string; id: string },
): Promise<ConsolidationRow | undefined> {
  const [row] = await tx.query<ConsolidationRow>(
    `select ${COLUMNS} from memory_consolidations where agent_id = $1 and id = $2 for update`,
    [of.agentId, of.id],
  );
  return row;
}

/** Marks it as undone. */
export async function markReverted(tx: Tx, of: { id: string; keyId: string }): Promise<void> {
  await tx.query('update memory_consolidations set reverted_at = now(), reverted_by = $2 where id = $1', [
    of.id,
    of.keyId,
  ]);
}

/** Sequences of tools that led an agent's turns to completion at least so often, with runs as evidence. */
export async function findProcedures(
  tx: Tx,
  of: { agentId: string; minFrequency: number },
): Promise<{ tools: string; times: number; runs: string[] }[]> {
  return tx.query(
    `select tools, count(*)::int as times, (array_agg(run_id order by run_id desc))[1:10] as runs from (
        select k.run_id, k.turn_id, string_agg(k.name, ' → ' order by k.step, k.place) as tools from tool_calls k
          join turns t on t.run_id = k.run_id and t.id = k.turn_id and t.status = 'complete'
          join runs r on r.id = k.run_id and r.agent_id = $1 and r.erased_at is null
         where k.status = 'succeeded' and k.name not in ('remember', 'recall')
         group by k.run_id, k.turn_id having count(*) >= 2) used
      group by tools having count(*) >= $2 order by times desc, tools limit 20`,
    [of.agentId, of.minFrequency],
  );
}
