/** Searches shared memory, by words and by meaning. */
import type { Caller } from '../../core/caller.ts';
import { LIMITS } from '../../core/limits.ts';
import { listFragments, noteAccesses, type FragmentRow } from '../../db/memory-fragments.ts';
import { listSearchedSpaces } from '../../db/memory-spaces.ts';
import { searchFragments } from '../../db/fragment-search.ts';
import type { QuestionVector } from '../../db/memory-search.ts';
import type { Tx } from '../../db/database.ts';
import { startDeadline } from '../../lib/deadline.ts';
import { newId } from '../../lib/new-id.ts';
import { isUuid } from '../../lib/is-uuid.ts';
import type { EmbeddingOwner, EmbedOptions } from '../../llm/embed-texts.ts';
import { toVector } from '../../llm/embeddings.ts';
import type { MemoryContext } from './memory-context.ts';
import { embedFragmentsSoon, freshFragments, storeVectors } from './embed-fragments.ts';
import { makeVectors } from './make-vectors.ts';
import { accessible, requireAccess, requireAgents } from './space/access.ts';
import { requireSpace } from './spaces.ts';

interface SpaceQuestion {
  /** Undefined: all that admit the agent. */
  spaceId: string | undefined;
  text: string | undefined;
  agentId: string | undefined;
  limit: number;
  minRelevance: number;
}

/**
 * Fragments that match the question, best first; without a question the newest. Throws 404, 403 for an agent without
 * access.
 */
export async function searchSpace(
  context: MemoryContext,
  caller: Caller,
  {
    spaceId,
    text,
    agentId = null,
    limit,
    minRelevance,
  }: Omit<SpaceQuestion, 'agentId'> & { agentId?: string | null | undefined },
): Promise<{ fragment: FragmentRow; relevance: number }[]> {
  const { db } = context;
  const { tenantId, workspaceId } = caller;
  const spaceIds = await db.withTenant(tenantId, (tx) => searched(tx, caller, { spaceId, agentId }));
  if (spaceIds.length === 0) return [];
  const scope = { spaceIds, agentId, limit };
  const vector =
    text === undefined
      ? undefined
      : await vectorOf(context, { tenantId, workspaceId, agentId: ownAgent(agentId) }, { spaceIds, text });
  return db.withTenant(tenantId, async (tx) => {
    const rows =
      text === undefined
        ? (await listFragments(tx, scope)).map((fragment) => ({ fragment, relevance: 1 }))
        : (await searchFragments(tx, scope, { text, vector })).map((row) => {
            const { lexical, cosine, ...fragment } = row;
            // A match by either counts, one by both counts more.
            return { fragment, relevance: 1 - (1 - lexical) * (1 - cosine) };
          });
    const hits = rows.filter(({ relevance }) => relevance >= minRelevance);
    const fragments = hits.map(({ fragment, relevance }) => ({ access: newId(), id: fragment.id, score: relevance }));
    await noteAccesses(tx, { tenantId, agentId, operation: 'search', fragments });
    return hits;
  });
}

/** Names that are no UUID are a client's own. */
const ownAgent = (name: string | null) => (name !== null && isUuid(name) ? name : undefined);

/** Fragments below this have little to do with a message. */
const LEAST_RELEVANCE = 0.1;

/** Fragments shared with an agent that match a message, best first. */
export async function recallFragments(
  context: MemoryContext,
  of: EmbeddingOwner & { workspaceId: string; agentId: string; text: string; limit: number; ofTeamsAlone: boolean },
): Promise<{ fragment: FragmentRow; relevance: number }[]> {
  const { tenantId, workspaceId, agentId, runId, limit } = of;
  const spaceIds = await context.db.withTenant(tenantId, async (tx) => {
    const all = await listSearchedSpaces(tx, { workspaceId, limit: LIMITS.searchedSpaces });
    const asked = of.ofTeamsAlone ? all.filter((space) => space.is_of_team) : all;
    return (await accessible(tx, asked, agentId)).map(({ id }) => id);
  });
  if (spaceIds.length === 0) return [];
  const text = of.text.slice(0, LIMITS.embeddedChars);
  const vector = await vectorOf(context, { tenantId, workspaceId, agentId, runId }, { spaceIds, text });
  const rows = await context.db.withTenant(tenantId, (tx) =>
    searchFragments(tx, { spaceIds, agentId, limit }, { text, vector }),
  );
  return rows
    .map(({ lexical, cosine, ...fragment }) => ({ fragment, relevance: 1 - (1 - lexical) * (1 - cosine) }))
    .filter(({ relevance }) => relevance >= LEAST_RELEVANCE);
}

async function searched(
  tx: Tx,
  caller: Caller,
  { spaceId, agentId }: { spaceId: string | undefined; agentId: string | null },
): Promise<string[]> {
  const knowing = requireAgents(tx, caller, { agent_id: agentId });
  if (spaceId !== undefined) {
    const [space] = await Promise.all([requireSpace(tx, caller, spaceId), knowing]);
    await requireAccess(tx, space, agentId ?? undefined);
    return [spaceId];
  }
  const { workspaceId } = caller;
  const [all] = await Promise.all([listSearchedSpaces(tx, { workspaceId, limit: LIMITS.searchedSpaces }), knowing]);
  return (await accessible(tx, all, agentId ?? undefined)).map(({ id }) => id);
}

/**
 * Embeds the question, and meanwhile the first fragments that lack a vector; the others follow. Undefined if not in
 * time: words alone decide.
 */
async function vectorOf(
  context: MemoryContext,
  of: EmbeddingOwner,
  { spaceIds, text }: { spaceIds: readonly string[]; text: string },
): Promise<QuestionVector | undefined> {
  const { embeddings, log } = context;
  const model = embeddings.modelFor(undefined);
  if (model === undefined) return undefined;
  const deadline = startDeadline(LIMITS.recallEmbeddingMs, new AbortController().signal);
  const options = { signal: deadline.signal, isWaitedFor: true };
  const payer = { ...of, purpose: 'recall_embeddings' } as const;
  const { tenantId, workspaceId } = of;
  // Fragments are the space's, not of whoever is the first to search it.
  const ofSpace = { tenantId, workspaceId, purpose: 'memory_embeddings' } as const;
  const embedding = embedFirst(context, { spaceIds, model }, { ...options, payer: ofSpace });
  try {
    const [asked = []] = await embeddings.embed(model, [text], { ...options, payer });
    return { model, vector: toVector(asked), dimensions: asked.length };
  } catch (error) {
    log.warn({ err: error, model }, 'a question has no vector: a space is searched by words');
    return undefined;
  } finally {
    await embedding;
    deadline.clear();
  }
}

/** Does not fail: the search goes on without these vectors. */
async function embedFirst(
  context: MemoryContext,
  { spaceIds, model }: { spaceIds: readonly string[]; model: string },
  options: EmbedOptions,
): Promise<void> {
  const { tenantId } = options.payer;
  try {
    const rows = await freshFragments(context, { tenantId, spaceIds }, model);
    if (rows.length === LIMITS.embeddedTogether)
      for (const spaceId of new Set(rows.map((row) => row.space_id)))
        embedFragmentsSoon(context, { tenantId, spaceId });
    if (rows.length === 0) return;
    const texts = rows.map(({ content }) => content);
    const made = await makeVectors(context, { owner: 'memory_fragments', model, texts }, options);
    await storeVectors(context, tenantId, { model, rows, ...made });
  } catch (error) {
    context.log.warn({ err: error, model }, 'fragments that a space is searched for have no vectors yet');
  }
}
