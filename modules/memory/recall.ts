/** Recall: one function behind the API, the built-in tool and the context of every turn. */
import { searchedText } from '../../core/memory/question.ts';
import type { Ranked } from '../../core/memory/candidate.ts';
import { rank } from '../../core/memory/ranking.ts';
import { putCurrentFirst, validityOf, type Reasons, type Validity } from '../../core/memory/validity.ts';
import { concerns, type Whose } from '../../core/memory/whose.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Tx } from '../../db/database.ts';
import { findComparable } from '../../db/memory-models.ts';
import type { MemoryUse } from '../../db/memory-uses.ts';
import { shareGivingOf } from '../../db/memory-lock.ts';
import { findCandidates, type FoundMemory, type MemoryScope, type QuestionVector } from '../../db/memory-search.ts';
import { startDeadline } from '../../lib/deadline.ts';
import type { EmbeddingOwner } from '../../llm/embed-texts.ts';
import { toVector } from '../../llm/embeddings.ts';
import type { MemoryContext } from './memory-context.ts';
import { countUses } from './count-uses.ts';

export type { FoundMemory };
/** A found memory, and whether it holds at the time of the question. */
export interface Recalled extends Omit<Ranked<FoundMemory>, 'why'> {
  why: Reasons;
  validity: Validity;
}

interface RecallQuestion {
  text: string;
  /** When it is asked; times named in it are relative to that. */
  at: Date;
  topK: number;
  /** Lower scores are left out. */
  minScore?: number | undefined;
  /** The model of the agent's vectors. */
  model: string | undefined;
}

/** The memories that answer a question best, best first, with reasons; counts each as used. */
export async function recall(
  context: MemoryContext,
  scope: MemoryScope & MemoryUse,
  question: RecallQuestion,
): Promise<Recalled[]> {
  const { tenantId, agentId, runId } = scope;
  const asked = await vectorOf(context, question, { tenantId, agentId, runId });
  const { minScore = 0, topK } = question;
  return context.db.withTenant(tenantId, async (tx) => {
    if (runId !== undefined) await shareGivingOf(tx, agentId);
    const vector = await fitting(context, tx, { agentId, vector: asked });
    const candidates = await findCandidates(tx, scope, { text: searchedText(question.text), vector });
    const inScope = candidates.filter((each) => isInScope(each, scope));
    const hits = putCurrentFirst(question, rank(question, inScope)).filter(({ score }) => score >= minScore);
    const best = hits.slice(0, topK).map((hit) => ({ ...hit, validity: validityOf(hit.entry, question.at) }));
    const used = best.map(({ entry, score, why }) => ({ id: entry.id, score, why }));
    await countUses(context, tx, { use: scope, used });
    return best;
  });
}

/** Entries similar to a text that concern `whose`, best first; does not count as use: for Drover itself. */
export async function findLike(
  context: MemoryContext,
  { tenantId, agentId, whose }: { tenantId: string; agentId: string; whose: Whose },
  question: RecallQuestion,
): Promise<Ranked<FoundMemory>[]> {
  const asked = await vectorOf(context, question, { tenantId, agentId });
  const candidates = await context.db.withTenant(tenantId, async (tx) => {
    const vector = await fitting(context, tx, { agentId, vector: asked });
    return findCandidates(tx, { agentId }, { text: question.text, vector });
  });
  const own = candidates.filter(({ metadata }) => concerns(metadata['user_id'], whose));
  return rank(question, own).slice(0, question.topK);
}

/** Whether an entry is in scope: candidates include neighbours from the whole conversation. */
function isInScope({ memory_type: type, thread_id: thread, metadata }: FoundMemory, scope: MemoryScope): boolean {
  const { memoryTypes, threadId, ownedBy } = scope;
  const isOwned =
    !ownedBy ||
    (ownedBy.userId !== undefined && metadata['user_id'] === ownedBy.userId) ||
    (ownedBy.threadId !== undefined && thread === ownedBy.threadId);
  return isOwned && (memoryTypes?.includes(type) ?? true) && (threadId === undefined || thread === threadId);
}

/** The question's vector; undefined if there is none in time: recall then goes by words, and never fails for its model. */
async function vectorOf(
  { embeddings, log }: MemoryContext,
  { text, model }: RecallQuestion,
  of: EmbeddingOwner,
): Promise<QuestionVector | undefined> {
  if (model === undefined) return undefined;
  const deadline = startDeadline(LIMITS.recallEmbeddingMs, new AbortController().signal);
  const payer = { ...of, purpose: 'recall_embeddings' } as const;
  try {
    const options = { signal: deadline.signal, payer, isWaitedFor: true };
    const [values = []] = await embeddings.embed(model, [text], options);
    return { model, vector: toVector(values), dimensions: values.length };
  } catch (error) {
    log.warn({ err: error, model }, 'a question has no vector: recall goes by words');
    return undefined;
  } finally {
    deadline.clear();
  }
}

/**
 * The vector, with the name of the agent's vectors that it can be compared with; undefined if there are only others, since the
 * model gives others than it did.
 */
async function fitting(
  { log }: MemoryContext,
  tx: Tx,
  { agentId, vector }: { agentId: string; vector: QuestionVector | undefined },
): Promise<QuestionVector | undefined> {
  if (vector === undefined) return undefined;
  const { model, dimensions } = vector;
  const name = await findComparable(tx, { agentId, model, dimensions });
  if (name !== undefined) return { ...vector, model: name };
  log.warn({ model, agent: agentId, dimensions }, 'a vector has another length than stored ones: recall goes by words');
  return undefined;
}
