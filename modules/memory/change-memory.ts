/** Corrects an agent's memory: a new entry supersedes a fact, with who and why; the old one stays readable. */
import type { Caller } from '../../core/caller.ts';
import { badRequest, conflict, notFound } from '../../core/errors.ts';
import { readMetadata, isTrusted, type MemoryStatus, type MemoryType } from '../../core/memory/entry.ts';
import type { Tx } from '../../db/database.ts';
import { findMemory, insertMemories, supersedeMemory, updateMemory, type MemoryRow } from '../../db/memory-entries.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { toMemoryRow } from './add-memory.ts';
import { endDisputes } from './conflicts.ts';
import { checkContradictions } from './contradictions.ts';
import { requireAgent } from '../agents/read-agents.ts';
import { requireMemory } from './read-memories.ts';

interface MemoryPatch {
  content?: string | undefined;
  memory_type?: MemoryType | undefined;
  importance?: number | undefined;
  metadata?: Record<string, unknown> | undefined;
  status?: Exclude<MemoryStatus, 'superseded'> | undefined;
  valid_to?: Date | undefined;
  expires_at?: Date | undefined;
  reason?: string | undefined;
}

/**
 * Changes a memory; returns its id from now on: a new one if content or type has changed. Throws 404, 400 for an end
 * before its beginning, 409 for a superseded fact.
 */
export async function changeMemory(
  tx: Tx,
  caller: Caller,
  { agentId, id, patch }: { agentId: string; id: string; patch: MemoryPatch },
): Promise<string> {
  await requireMemory(tx, caller, { agentId, id });
  await lockMemoryOf(tx, agentId);
  const entry = await findMemory(tx, { agentId, id, lock: true });
  if (!entry) throw notFound('This memory');
  if (entry.status === 'superseded') {
    throw conflict('Another entry has superseded this one.', { superseded_by: entry.superseded_by });
  }
  if (patch.valid_to && entry.valid_from && patch.valid_to < entry.valid_from) {
    const message = 'is before valid_from';
    throw badRequest(`body.valid_to ${message}`, [{ path: 'body.valid_to', message }]);
  }
  const { content = entry.content, memory_type: type = entry.memory_type, reason = null } = patch;
  const isNewFact = content !== entry.content || type !== entry.memory_type;
  const next = isNewFact ? await supersede(tx, caller, { entry, patch: { ...patch, content, memory_type: type } }) : id;
  if (entry.status === 'disputed' && (isNewFact || patch.status === 'archived')) {
    await endDisputes(tx, { ...caller, ids: [id] });
  }
  if (!isNewFact) await update(tx, { entry, patch, reason });
  // While archived, it was not compared with new entries.
  const isBack = entry.status === 'archived' && patch.status === 'active';
  if (isBack || (isNewFact && (patch.status ?? 'active') === 'active')) {
    const { definition } = await requireAgent(tx, caller, agentId);
    const { tenantId, workspaceId } = caller;
    await checkContradictions(tx, { tenantId, workspaceId, agentId, definition, by: caller, ids: [next] });
  }
  const action = isNewFact ? 'memory.superseded' : 'memory.updated';
  await recordAudit(tx, caller, {
    action,
    target: ['memory', next],
    details: { agent_id: agentId, ...(next !== id && { supersedes: id }) },
  });
  return next;
}

async function supersede(
  tx: Tx,
  caller: Caller,
  { entry, patch }: { entry: MemoryRow; patch: MemoryPatch & { content: string; memory_type: MemoryType } },
): Promise<string> {
  // A change of type alone keeps the origin: words of a tool or the web do not become trusted by it.
  const isSaidAnew = patch.content !== entry.content;
  const by = { tenantId: caller.tenantId, agentId: entry.agent_id, keyId: caller.keyId };
  const from = isSaidAnew ? { ...by, origin: 'user' as const } : { ...by, origin: entry.origin, ...placeOf(entry) };
  const row = toMemoryRow(
    {
      content: patch.content,
      memory_type: patch.memory_type,
      thread_id: entry.thread_id,
      importance: patch.importance ?? entry.importance,
      relevance_score: entry.relevance_score,
      metadata: patch.metadata ?? entry.metadata,
      ...(!isSaidAnew && { summary: entry.summary ?? undefined, valid_from: entry.valid_from ?? undefined }),
      valid_to: patch.valid_to ?? (isSaidAnew ? undefined : (entry.valid_to ?? undefined)),
      expires_at: patch.expires_at ?? entry.expires_at ?? undefined,
    },
    from,
    entry,
  );
  await supersedeMemory(tx, { id: entry.id, by: row.id, validTo: null, reason: null, evenArchived: true });
  await insertMemories(tx, [{ ...row, status: patch.status ?? 'active', reason: patch.reason ?? null }]);
  return row.id;
}

/** The place in a run where it was said. */
function placeOf({ run_id: runId, turn_id: turnId, seq }: MemoryRow) {
  return { runId: runId ?? undefined, turnId: turnId ?? undefined, seq: seq ?? undefined };
}

async function update(
  tx: Tx,
  { entry, patch, reason }: { entry: MemoryRow; patch: MemoryPatch; reason: string | null },
): Promise<void> {
  const { importance, status, metadata, valid_to: validTo, expires_at: expiresAt } = patch;
  await updateMemory(tx, {
    id: entry.id,
    set: {
      ...(importance !== undefined && { importance }),
      ...(status !== undefined && { status }),
      ...(metadata !== undefined && {
        metadata,
        is_profile: readMetadata(metadata).isProfile && isTrusted(entry.origin),
      }),
      ...(validTo !== undefined && { valid_to: validTo }),
      ...(expiresAt !== undefined && { expires_at: expiresAt }),
    },
    reason,
  });
}
