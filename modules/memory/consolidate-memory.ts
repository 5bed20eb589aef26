/** Consolidates an agent's short-term memory: a plan, applied in one transaction, recorded, and revertible. */
import { conflict, notFound } from '../../core/errors.ts';
import type { Caller } from '../../core/caller.ts';
import { consolidationSettings, type AgentDefinition } from '../../core/definition.ts';
import {
  planConsolidation,
  type ConsolidationPlan,
  type ConsolidationStrategy,
  type ShortTermEntry,
  type SimilarEntry,
} from '../../core/memory/consolidation.ts';
import { readMetadata } from '../../core/memory/entry.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import {
  applyPlan,
  findProcedures,
  insertConsolidation,
  listConsolidations,
  lockConsolidation,
  lockShortTerm,
  markReverted,
  undoDiff,
  type ConsolidationRow,
} from '../../db/memory-consolidation.ts';
import { readSimilar } from '../../db/memory-similar.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { findMemory, findSameText, insertMemories } from '../../db/memory-entries.ts';
import type { Page } from '../../db/page-bytes.ts';
import { newId } from '../../lib/new-id.ts';
import { requireAgent } from '../agents/read-agents.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { hashOf, toMemoryRow } from './add-memory.ts';
import { endDisputes } from './conflicts.ts';
import { checkContradictions } from './contradictions.ts';

export type { ConsolidationRow };

export interface Consolidation {
  tenantId: string;
  agentId: string;
  definition: AgentDefinition;
  strategy: ConsolidationStrategy;
  maxEntries: number;
  at: Date;
  /** Who asked for it; null if it was just due. */
  keyId: string | null;
}

/** Candidates in the order of the plan, and what says the same, as they were found before. */
export interface Survey {
  candidates: readonly ShortTermEntry[];
  similar: readonly SimilarEntry[];
}

interface Found extends Survey {
  /** Shorter versions of long entries, by id; an entry without one is cut to its weightiest sentences. */
  summaries: ReadonlyMap<string, string>;
}

export interface Consolidated {
  /** Null if there was nothing to do, which is not recorded. */
  id: string | null;
  consolidated: number;
  merged: number;
  evicted: number;
  procedural: number;
}

/**
 * Plans and applies in the caller's transaction, so that a killed process leaves everything as it was. What was found before is
 * read again: entries may have been changed, consolidated or forgotten since.
 */
export async function consolidateMemory(tx: Tx, asked: Consolidation & Found): Promise<Consolidated> {
  const { agentId, at, strategy, maxEntries } = asked;
  const settings = consolidationSettings(asked.definition);
  await lockMemoryOf(tx, agentId);
  const found = asked.candidates.map(({ id }) => id);
  const candidates = await lockShortTerm(tx, agentId, found);
  const plan = planConsolidation(candidates, await readSimilar(tx, agentId, asked.similar), { at, settings });
  const summaries = await addSummaries(tx, asked, plan);
  const diff = await applyPlan(tx, agentId, { plan, summaries, archive: settings.archiveEvicted });
  const procedural = await addProcedures(tx, asked);
  const consolidated = diff.kept.length + diff.summarized.length;
  const counts = {
    consolidated,
    merged: diff.merged.length,
    evicted: diff.evicted.length,
    procedural: procedural.length,
  };
  if (candidates.length === 0 && procedural.length === 0) return { id: null, ...counts };
  const id = newId();
  await insertConsolidation(tx, {
    id,
    tenant_id: asked.tenantId,
    agent_id: agentId,
    strategy,
    inputs: { settings, max_entries: maxEntries, at: at.toISOString(), candidates: candidates.map(inputOf) },
    diff: { ...diff, procedural },
    consolidated,
    evicted: diff.evicted.length,
    key_id: asked.keyId,
  });
  return { id, ...counts };
}

/** The plan's inputs, without the text. */
function inputOf({ id, importance, relevance_score, access_count, last_accessed, created_at, tokens }: ShortTermEntry) {
  return { id, importance, relevance_score, access_count, last_accessed, created_at, tokens };
}

/** Adds shorter entries; returns their ids by those of the originals. */
async function addSummaries(
  tx: Tx,
  { tenantId, agentId, summaries }: Consolidation & Found,
  plan: ConsolidationPlan,
): Promise<Map<string, string>> {
  const ids = new Map<string, string>();
  for (const { id, importance, ...shortened } of plan.summarized) {
    const content = summaries.get(id) ?? shortened.content;
    const entry = await findMemory(tx, { agentId, id });
    if (!entry) continue;
    const { thread_id, relevance_score, metadata, valid_from, valid_to, expires_at, origin } = entry;
    const memory = {
      content,
      memory_type: 'EPISODIC' as const,
      thread_id,
      importance,
      relevance_score,
      metadata,
      summary: content,
      valid_from: valid_from ?? readMetadata(metadata).occurredAt ?? entry.created_at,
      valid_to: valid_to ?? undefined,
      expires_at: expires_at ?? undefined,
    };
    const from = { tenantId, agentId, origin, runId: entry.run_id ?? undefined, seq: entry.seq ?? undefined };
    const row = toMemoryRow(memory, from);
    await insertMemories(tx, [{ ...row, made_from: [id], access_count: entry.access_count }]);
    ids.set(id, row.id);
  }
  return ids;
}

/** Adds sequences of tools that often completed turns as procedural memory, with the runs as evidence. */
async function addProcedures(tx: Tx, { tenantId, agentId, definition }: Consolidation): Promise<string[]> {
  const { enabled = false, min_frequency: minFrequency = LIMITS.procedureTimes } =
    definition.memory_config?.procedural ?? {};
  if (!enabled) return [];
  const added: string[] = [];
  for (const { tools, times, runs } of await findProcedures(tx, { agentId, minFrequency })) {
    const content = `Requests were often answered by these tools in this order: ${tools}.`;
    if (await findSameText(tx, { tenantId, agentId, hash: hashOf(content) })) continue;
    const memory = { content, memory_type: 'PROCEDURAL' as const, metadata: { evidence: { times, runs } } };
    const row = toMemoryRow(memory, { tenantId, agentId, origin: 'agent' });
    await insertMemories(tx, [row]);
    added.push(row.id);
  }
  return added;
}

/** Reverts a consolidation; a repeated call does nothing. Throws 404, 409 if evicted entries were not archived. */
export async function revertConsolidation(
  tx: Tx,
  caller: Caller,
  { agentId, id }: { agentId: string; id: string },
): Promise<{ row: ConsolidationRow; restored: number }> {
  const { definition } = await requireAgent(tx, caller, agentId);
  await lockMemoryOf(tx, agentId);
  const row = await lockConsolidation(tx, { agentId, id });
  if (!row) throw notFound('This consolidation');
  if (row.reverted_at) return { row, restored: 0 };
  if (row.diff.lost > 0) throw conflict('Entries were evicted without an archive, and nothing brings them back.');
  // The entries it made go: disputes with them end.
  const made = [...row.diff.summarized.map((each) => each.id), ...row.diff.procedural];
  await endDisputes(tx, { ...caller, ids: made });
  const { back, restored } = await undoDiff(tx, agentId, row.diff);
  // Entries written since were not compared with those that come back.
  const { tenantId, workspaceId } = caller;
  await checkContradictions(tx, { tenantId, workspaceId, agentId, definition, by: caller, ids: back });
  await markReverted(tx, { id, keyId: caller.keyId });
  await recordAudit(tx, caller, {
    action: 'memory.consolidation_reverted',
    target: ['agent', agentId],
    details: { id },
  });
  return { row: { ...row, reverted_at: new Date() }, restored };
}

/** A page of an agent's consolidations, newest first. Throws 404 for an unknown agent. */
export async function readConsolidations(
  tx: Tx,
  caller: Caller,
  page: Parameters<typeof listConsolidations>[1],
): Promise<Page<ConsolidationRow>> {
  await requireAgent(tx, caller, page.agentId);
  return listConsolidations(tx, page);
}
