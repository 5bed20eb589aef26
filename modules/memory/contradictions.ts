/** Looks among the nearest entries of an agent for what a new one contradicts: by rules with the write, or by a model after it. */
import type { Caller } from '../../core/caller.ts';
import { conflictSettings, type AgentDefinition } from '../../core/definition.ts';
import { conflict } from '../../core/errors.ts';
import { contradicts } from '../../core/memory/contradiction.ts';
import type { Tx } from '../../db/database.ts';
import {
  disputeMemories,
  findLikeWords,
  insertCheck,
  listComparedTexts,
  undisputeMemories,
} from '../../db/memory-conflicts.ts';
import { findMemory, insertMemories, supersedeMemory, updateMemory, type MemoryRow } from '../../db/memory-entries.ts';
import type { AuditedBy } from '../audit/record-audit.ts';
import { toMemoryRow } from './add-memory.ts';
import { openConflict } from './conflicts.ts';

/** Those that share most words are compared. */
const COMPARED = 5;

export interface WrittenMemory {
  tenantId: string;
  workspaceId: string;
  agentId: string;
  definition: AgentDefinition;
  by: AuditedBy;
  entry: { id: string; content: string };
}

/** Does what the agent asks for; answers the entries that the new one contradicts, as far as rules say. */
export async function checkContradictions(tx: Tx, written: WrittenMemory): Promise<string[]> {
  const { tenantId, agentId, entry } = written;
  const how = conflictSettings(written.definition);
  if (how === 'off') return [];
  if (how === 'model') {
    await insertCheck(tx, { tenantId, subjectType: 'memory', subjectId: entry.id, ownerId: agentId });
    return [];
  }
  const like = await findLikeWords(tx, { ownerId: agentId, id: entry.id, text: entry.content, limit: COMPARED });
  const texts = await listComparedTexts(tx, { ids: like.map(({ id }) => id), entryId: entry.id });
  const others = texts.filter(({ content }) => contradicts(content, entry.content));
  await dispute(tx, written, others);
  return others.map(({ id }) => id);
}

/** Marks both sides and asks people which of them is so: one question, about the newest of the others. */
export async function dispute(
  tx: Tx,
  written: Omit<WrittenMemory, 'definition'>,
  others: readonly { id: string; content: string }[],
): Promise<void> {
  const [first, ...more] = others;
  if (!first) return;
  const { agentId, entry } = written;
  const ids = others.map(({ id }) => id);
  await disputeMemories(tx, [entry.id, ...ids]);
  await openConflict(tx, {
    ...written,
    subject: ['memory', entry.id],
    sides: {
      agent_id: agentId,
      conflicts_with: first.id,
      ...(more.length > 0 && { also_conflicts_with: more.map(({ id }) => id) }),
      version_a: first.content,
      version_b: entry.content,
    },
    details: { agent_id: agentId, conflicts_with: ids },
    message: 'What was remembered now contradicts what was remembered before.',
  });
}

export type Side = { keep: 'new' | 'old' } | { content: string };

/**
 * Decides between two entries: the one that is not so is superseded, or neither is and another text is. What else the newer one
 * contradicts goes with the older one. Throws 409 where either of the two has changed since.
 */
export async function resolveMemories(
  tx: Tx,
  caller: Pick<Caller, 'tenantId' | 'keyId'>,
  { agentId, ids, side }: { agentId: string; ids: { older: string; newer: string; others: string[] }; side: Side },
): Promise<void> {
  const [older, newer] = [await lockLive(tx, agentId, ids.older), await lockLive(tx, agentId, ids.newer)];
  const because = 'A person has decided between the two.';
  if ('content' in side) {
    const { memory_type, importance, relevance_score, metadata, thread_id } = newer;
    const memory = { content: side.content, memory_type, importance, relevance_score, metadata, thread_id };
    const from = { tenantId: caller.tenantId, agentId, origin: 'user' as const, keyId: caller.keyId };
    const row = toMemoryRow(memory, from, newer);
    for (const id of [older.id, newer.id, ...ids.others])
      await supersedeMemory(tx, { id, by: row.id, validTo: null, reason: because });
    await insertMemories(tx, [{ ...row, reason: because }]);
    return;
  }
  const [kept, gone] = side.keep === 'new' ? [newer, older] : [older, newer];
  const superseded = side.keep === 'new' ? [gone.id, ...ids.others] : [gone.id];
  for (const id of superseded) await supersedeMemory(tx, { id, by: kept.id, validTo: null, reason: because });
  await undisputeMemories(tx, superseded);
  await updateMemory(tx, { id: kept.id, set: { status: 'active' }, reason: because });
}

async function lockLive(tx: Tx, agentId: string, id: string): Promise<MemoryRow> {
  const entry = await findMemory(tx, { agentId, id, lock: true });
  if (entry?.status === 'active' || entry?.status === 'disputed') return entry;
  throw conflict('One of the two memories has changed since.', { memory_id: id });
}
