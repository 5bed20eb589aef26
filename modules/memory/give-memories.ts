/** Chooses the memories that a turn is given, by `memory_config`. */
import { memorySettings, type AgentDefinition, type MemorySettings } from '../../core/definition.ts';
import { isTrusted } from '../../core/memory/entry.ts';
import { timeOf } from '../../core/memory/candidate.ts';
import type { GivenMemory } from '../../core/memory/prompt.ts';
import type { ValidTimes, Validity } from '../../core/memory/validity.ts';
import { listProfile, type Owners } from '../../db/memory-search.ts';
import type { MemoryRow } from '../../db/memory-entries.ts';
import { shareGivingOf } from '../../db/memory-lock.ts';
import { estimateTokens } from '../../llm/estimate-tokens.ts';
import { LIMITS } from '../../core/limits.ts';
import type { MemoryContext } from './memory-context.ts';
import { countUses } from './count-uses.ts';
import { recall } from './recall.ts';
import { recallFragments } from './search-space.ts';
import { wordsIn } from './space/store-fragment.ts';

interface AskingTurn {
  tenantId: string;
  agentId: string;
  runId: string;
  turnId: string;
  workspaceId: string;
  threadId: string;
  /** The session's user. */
  userId: string | undefined;
  definition: AgentDefinition;
  /** The user's message. */
  message: string;
}

/**
 * Returns standing instructions and preferences within their budget, then entries and shared fragments that match the
 * message within another.
 */
export async function giveMemories(context: MemoryContext, turn: AskingTurn): Promise<GivenMemory[]> {
  const settings = memorySettings(turn.definition);
  if (!settings.enabled) return [];
  const { entries, tokens } = await giveOwn(context, turn, settings);
  return [...entries, ...(await giveShared(context, turn, { ...settings, maxTokens: settings.maxTokens - tokens }))];
}

/** `tokens`: used up of the budget, without the profile. */
async function giveOwn(
  context: MemoryContext,
  turn: AskingTurn,
  settings: MemorySettings,
): Promise<{ entries: GivenMemory[]; tokens: number }> {
  const { tenantId, agentId, runId, turnId, message } = turn;
  const ownedBy = ownersOf(turn, settings);
  if (ownedBy === 'nobody') return { entries: [], tokens: 0 };
  const always = await context.db.withTenant(tenantId, async (tx) => {
    await shareGivingOf(tx, agentId);
    const profile = await listProfile(tx, { agentId, ownedBy }, { at: context.clock(), limit: LIMITS.recallEntries });
    const loaded = withinTokens(profile, settings.profileTokens, (row) => row.tokens);
    const used = loaded.map(({ id }) => ({ id, score: 1, why: { profile: 1 } }));
    await countUses(context, tx, { use: { ...turn, operation: 'turn' }, used });
    return loaded;
  });
  const hits = await recall(
    context,
    { tenantId, agentId, runId, turnId, operation: 'turn', memoryTypes: settings.memoryTypes, ownedBy },
    {
      text: message.slice(0, LIMITS.embeddedChars),
      at: context.clock(),
      topK: settings.topK + always.length,
      minScore: settings.minScore,
      model: context.embeddings.modelFor(settings.embeddingModel),
    },
  );
  const others = hits.filter(({ entry }) => always.every(({ id }) => id !== entry.id)).slice(0, settings.topK);
  const found = withinTokens(others, settings.maxTokens, ({ entry }) => entry.tokens);
  const entries = [
    ...always.map((row) => given(row, 1)),
    ...found.map(({ entry, score, validity }) => ({ ...given(entry, score), ...markOf(entry, validity) })),
  ];
  return { entries, tokens: found.reduce((sum, { entry }) => sum + entry.tokens, 0) };
}

/** The owners whose entries a turn is given; undefined for all of the agent's. */
export function ownersOf(
  { userId, threadId }: Pick<AskingTurn, 'userId' | 'threadId'>,
  { scopes }: Pick<MemorySettings, 'scopes'>,
): Owners | 'nobody' | undefined {
  if (!scopes || scopes.includes('agent')) return undefined;
  const owners = {
    userId: scopes.includes('user') ? userId : undefined,
    threadId: scopes.includes('thread') ? threadId : undefined,
  };
  return owners.userId === undefined && owners.threadId === undefined ? 'nobody' : owners;
}

/**
 * Fragments from the spaces of the agent's teams, or from all that admit it if its scopes say so. Others may have
 * written them.
 */
async function giveShared(context: MemoryContext, turn: AskingTurn, settings: MemorySettings): Promise<GivenMemory[]> {
  const { scopes } = settings;
  if (scopes && !scopes.includes('space')) return [];
  const { tenantId, workspaceId, agentId, runId, message: text } = turn;
  const of = { tenantId, workspaceId, agentId, runId, text, limit: settings.topK, ofTeamsAlone: scopes === undefined };
  const hits = await recallFragments(context, of);
  const found = hits.map(({ fragment, relevance }): GivenMemory => ({
    id: fragment.id,
    version: fragment.version,
    score: relevance,
    memory_type: 'SEMANTIC',
    origin: 'memory',
    status: fragment.requires_resolution ? 'disputed' : 'active',
    trusted: isTrusted('memory'),
    profile: false,
    at: fragment.updated_at.toISOString(),
    content: wordsIn(fragment.content),
  }));
  const fitting = withinTokens(found, settings.maxTokens, ({ content }) => estimateTokens(content));
  const used = fitting.map(({ id, score }) => ({ id, score, why: { space: score } }));
  if (used.length > 0)
    await context.db.withTenant(tenantId, (tx) =>
      countUses(context, tx, { use: { ...turn, operation: 'turn' }, used }),
    );
  return fitting;
}

/** Takes items in order while they fit; skips those that do not. */
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

/** The mark of an entry that does not hold now; empty for one that does. */
function markOf({ valid_from: from, valid_to: to }: ValidTimes, state: Validity): Pick<GivenMemory, 'validity'> {
  const at = state === 'ended' ? to : from;
  return state === 'current' || at === null ? {} : { validity: { state, at: at.toISOString() } };
}
