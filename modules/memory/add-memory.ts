/** Adds entries to an agent's memory. */
import { createHash } from 'node:crypto';
import { isTrusted, readMetadata, type MemoryOrigin, type MemoryType } from '../../core/memory/entry.ts';
import { insertMemories, type MemoryRow, type NewMemoryRow } from '../../db/memory-entries.ts';
import type { Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';
import { estimateTokens } from '../../llm/estimate-tokens.ts';
import type { MemoryContext } from './memory-context.ts';
import { workSoon } from './memory-work.ts';

export interface NewMemory {
  content: string;
  memory_type: MemoryType;
  thread_id?: string | null | undefined;
  importance?: number | undefined;
  relevance_score?: number | undefined;
  metadata?: Record<string, unknown> | undefined;
  summary?: string | undefined;
  valid_from?: Date | undefined;
  valid_to?: Date | undefined;
  expires_at?: Date | undefined;
}

/** Where an entry comes from. */
export interface Provenance {
  tenantId: string;
  agentId: string;
  origin: MemoryOrigin;
  /** The key of a client that wrote it. */
  keyId?: string | undefined;
  runId?: string | undefined;
  turnId?: string | undefined;
  /** The event in the run's log. */
  seq?: number | undefined;
}

/** The row of a memory. `before`: the version of the same fact that it follows. */
export function toMemoryRow(
  memory: NewMemory,
  from: Provenance,
  before?: Pick<MemoryRow, 'id' | 'root_id' | 'version'>,
): NewMemoryRow {
  const id = newId();
  const { metadata = {}, content } = memory;
  return {
    id,
    tenant_id: from.tenantId,
    agent_id: from.agentId,
    thread_id: memory.thread_id ?? null,
    memory_type: memory.memory_type,
    content,
    content_hash: hashOf(content),
    summary: memory.summary ?? null,
    origin: from.origin,
    run_id: from.runId ?? null,
    turn_id: from.turnId ?? null,
    seq: from.seq ?? null,
    key_id: from.keyId ?? null,
    root_id: before?.root_id ?? id,
    version: (before?.version ?? 0) + 1,
    supersedes: before?.id ?? null,
    importance: memory.importance ?? 0.5,
    relevance_score: memory.relevance_score ?? 0.5,
    metadata,
    tokens: estimateTokens(content),
    // Untrusted entries are never loaded unasked.
    is_profile: readMetadata(metadata).isProfile && isTrusted(from.origin),
    valid_from: memory.valid_from ?? null,
    valid_to: memory.valid_to ?? null,
    expires_at: memory.expires_at ?? null,
  };
}

/** Adds an entry; its vector follows later (`embedSoon`), unless the same text has one already (`embedded`). */
export async function addMemory(tx: Tx, row: NewMemoryRow): Promise<{ id: string; embedded: boolean }> {
  const embedded = await insertMemories(tx, [row]);
  return { id: row.id, embedded: embedded.includes(row.id) };
}

/** Has the agent's entries without a vector embedded; to be called after the commit that added them. */
export function embedSoon(context: MemoryContext, { tenantId, agentId }: { tenantId: string; agentId: string }): void {
  if (context.embeddings.modelFor(undefined) === undefined) return;
  workSoon(context, { tenantId, agentId, work: 'embed' });
}

/** Hashes the text regardless of case, whitespace and Unicode form. */
export function hashOf(content: string): string {
  const words = content.normalize('NFKC').toLowerCase().replaceAll(/\s+/g, ' ').trim();
  return createHash('sha256').update(words).digest('hex');
}
