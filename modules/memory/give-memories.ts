/** What a turn is given of its agent's memory, as `memory_config` says. */
import { memorySettings, type AgentDefinition } from '../../core/definition.ts';
import { isTrusted } from '../../core/memory/entry.ts';
import { timeOf } from '../../core/memory/ranking.ts';
import type { GivenMemory } from '../../core/memory/prompt.ts';
import { listProfile } from '../../db/memory-search.ts';
import { countAccesses, type MemoryRow } from '../../db/memory-entries.ts';
import { newId } from '../../lib/new-id.ts';
import { LIMITS } from '../../core/limits.ts';
import type { MemoryContext } from './context.ts';
import { recall } from './recall.ts';

export interface AskingTurn {
  tenantId: string;
  agentId: string;
  runId: string;
  turnId: string;
  definition: AgentDefinition;
  /** What the user has said. */
  message: string;
}

/** Standing instructions and preferences first, within their budget; then what the message brings to mind, within its own. */
export async function giveMemories(context: MemoryContext, turn: AskingTurn): Promise<GivenMemory[]> {
  const { tenantId, agentId, runId, turnId, definition, message } = turn;
  const settings = memorySettings(definition);
  if (!settings.enabled) return [];
  const profile = await context.db.withTenant(tenantId, (tx) => listProfile(tx, agentId, LIMITS.recallEntries));
  const always = withinTokens(profile, settings.profileTokens, (row) => row.tokens);
  const loaded = always.map(({ id }) => ({ access: newId(), id, score: 1, why: { profile: 1 } }));
  if (loaded.length > 0)
    await context.db.withTenant(tenantId, (tx) => countAccesses(tx, { ...turn, operation: 'turn' }, loaded));
  const hits = await recall(
    context,
    { tenantId, agentId, runId, turnId, operation: 'turn', memoryTypes: settings.memoryTypes },
    {
      text: message.slice(0, LIMITS.embeddedChars),
      at: new Date(),
      topK: settings.topK + always.length,
      minScore: settings.minScore,
      model: context.embeddings.modelFor(settings.embeddingModel),
    },
  );
  const others = hits.filter(({ entry }) => always.every(({ id }) => id !== entry.id)).slice(0, settings.topK);
  const found = withinTokens(others, settings.maxTokens, ({ entry }) => entry.tokens);
  return [...always.map((row) => given(row, 1)), ...found.map(({ entry, score }) => given(entry, score))];
}

/** The first of them that fit together. */
function withinTokens<T>(items: readonly T[], most: number, tokensOf: (item: T) => number): T[] {
  let tokens = 0;
  return items.filter((item) => {
    if (tokens + tokensOf(item) > most) return false;
    tokens += tokensOf(item);
    return true;
  });
}

function given(row: MemoryRow, score: number): GivenMemory {
  return {
    id: row.id,
    version: row.version,
    score,
    memory_type: row.memory_type,
    origin: row.origin,
    status: row.status,
    trusted: isTrusted(row.origin),
    profile: row.is_profile,
    at: new Date(timeOf(row)).toISOString(),
    content: row.content,
  };
}
