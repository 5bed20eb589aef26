/** Finds what a new entry contradicts among the agent's most similar ones: by rules with the write, or by a model later. */
import type { Caller } from '../../core/caller.ts';
import { conflictSettings, memorySettings, type AgentDefinition } from '../../core/definition.ts';
import { conflict } from '../../core/errors.ts';
import { contradicts } from '../../core/memory/contradiction.ts';
import { keepsApart } from '../../core/memory/whose.ts';
import type { Tx } from '../../db/database.ts';
import { disputeMemories } from '../../db/memory-conflicts.ts';
import { insertChecks, listComparedTexts } from '../../db/memory-checks.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import {
  findMemory,
  insertMemories,
  supersedeMemory,
  updateMemory,
  type MemoryRow,
  listLive,
} from '../../db/memory-entries.ts';
import { requireAgent } from '../agents/read-agents.ts';
import type { AuditedBy } from '../audit/record-audit.ts';
import { toMemoryRow } from './add-memory.ts';
import { openConflict } from './conflicts.ts';

/** Entries to compare with: those that share most words. */
const COMPARED = 5;

/** Entries per statement. */
const TOGETHER = 100;

interface WrittenMemories {
  tenantId: string;
  workspaceId: string;
  agentId: string;
  definition: AgentDefinition;
  by: AuditedBy;
  /** New entries, and those that are current again. */
  ids: readonly string[];
}

/** Checks each of these entries against the others as the agent's settings say; pairs among them are compared once. */
export async function checkContradictions(tx: Tx, written: WrittenMemories): Promise<void> {
  const { tenantId, agentId, ids } = written;
  const how = conflictSettings(written.definition);
  if (how === 'off' || ids.length === 0) return;
  if (how === 'model') {
    await insertChecks(tx, { tenantId, subjectType: 'memory', subjectIds: ids, ownerId: agentId });
    return;
  }
  // Of two simultaneous writes the second sees the first, which without the lock would be uncommitted and invisible.
  await lockMemoryOf(tx, agentId);
  const isApart = keepsApart(memorySettings(written.definition));
  const asked = new Set<string>();
  for (let from = 0; from < ids.length; from += TOGETHER) {
    const some = ids.slice(from, from + TOGETHER);
    const pairs = await listComparedTexts(tx, { agentId, ids: some, limit: COMPARED, isApart });
    const found = pairs.filter(({ content, other_content: other }) => contradicts(content, other));
    for (const id of some) {
      const own = found.filter(({ entry, other }) => entry === id && !asked.has(`${other} ${id}`));
      const sides = own.map(({ other, other_content: content }) => ({ id: other, content }));
      for (const { other } of own) asked.add(`${id} ${other}`);
      await dispute(tx, { ...written, entry: { id, content: own[0]?.content ?? '' } }, sides);
    }
  }
}

/** Marks both sides as disputed and asks one question, about `entry` and the newest of the others. */
export async function dispute(
  tx: Tx,
  written: Omit<WrittenMemories, 'definition' | 'ids'> & { entry: { id: string; content: string } },
  found: readonly { id: string; content: string }[],
): Promise<void> {
  if (found.length === 0) return;
  const { agentId, entry } = written;
  await lockMemoryOf(tx, agentId);
  // While this waited for the lock, either side may have been corrected or forgotten; its text must not be stored
  // again.
  const live = await listLive(tx, { agentId, ids: [entry.id, ...found.map(({ id }) => id)] });
  const others = found.filter(({ id }) => live.includes(id));
  const [first, ...more] = others;
  if (!first || !live.includes(entry.id)) return;
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
 * Decides between two entries: the wrong one is superseded, or both are by a new text. If the older one goes, so do the
 * others that the newer one contradicts. Returns the ids that are gone; the caller closes the question and ends their
 * disputes (`endDisputes`). Throws 409 if either entry has changed since.
 */
export async function resolveMemories(
  tx: Tx,
  caller: Caller,
  { agentId, ids, side }: { agentId: string; ids: { older: string; newer: string; others: string[] }; side: Side },
): Promise<string[]> {
  await lockMemoryOf(tx, agentId);
  const [older, newer] = [await lockLive(tx, agentId, ids.older), await lockLive(tx, agentId, ids.newer)];
  const because = 'A person has decided between the two.';
  if ('content' in side) {
    const { memory_type, importance, relevance_score, metadata, thread_id } = newer;
    const memory = { content: side.content, memory_type, importance, relevance_score, metadata, thread_id };
    const from = { tenantId: caller.tenantId, agentId, origin: 'user' as const, keyId: caller.keyId };
    const row = toMemoryRow(memory, from, newer);
    const gone = [older.id, newer.id, ...ids.others];
    for (const id of gone) await supersedeMemory(tx, { id, by: row.id, validTo: null, reason: because });
    await insertMemories(tx, [{ ...row, reason: because }]);
    const { definition } = await requireAgent(tx, caller, agentId);
    const { tenantId, workspaceId } = caller;
    await checkContradictions(tx, { tenantId, workspaceId, agentId, definition, by: caller, ids: [row.id] });
    return gone;
  }
  const [kept, gone] = side.keep === 'new' ? [newer, older] : [older, newer];
  const superseded = side.keep === 'new' ? [gone.id, ...ids.others] : [gone.id];
  for (const id of superseded) await supersedeMemory(tx, { id, by: kept.id, validTo: null, reason: because });
  await updateMemory(tx, { id: kept.id, set: {}, reason: because });
  return superseded;
}

async function lockLive(tx: Tx, agentId: string, id: string): Promise<MemoryRow> {
  const entry = await findMemory(tx, { agentId, id, lock: true });
  if (entry?.status === 'active' || entry?.status === 'disputed') return entry;
  throw conflict('One of the two memories has changed since.', { memory_id: id });
}
