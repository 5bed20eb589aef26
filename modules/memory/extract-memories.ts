/**
 * Learns from a turn after its end: a model, or rules if none can be asked, propose what to remember; other rules
 * refuse junk; one transaction stores the rest. If the process is killed, the turn stays due.
 */
import { DUPLICATE_COSINE } from '../../core/memory/consolidation.ts';
import { heardIn, judgeProposal, type Evidence, type Judged, type ShownMemory } from '../../core/memory/extraction.ts';
import { memorySettings, type AgentDefinition } from '../../core/definition.ts';
import { mayAskAgain, secondsUntilAsked } from '../../core/memory/model-away.ts';
import { keepsApart, type Whose } from '../../core/memory/whose.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { findMemory, findSameText, insertMemories, supersedeMemory } from '../../db/memory-entries.ts';
import {
  delayExtraction,
  findDueExtraction,
  findNearTexts,
  finishExtraction,
  listNewestSaid,
  lockExtraction,
  type LearntTurn,
} from '../../db/memory-extractions.ts';
import type { Tx } from '../../db/database.ts';
import type { ExtractionJob } from '../../jobs/consolidation.ts';
import { toVector } from '../../llm/embeddings.ts';
import { addMemory, embedSoon, hashOf, toMemoryRow, type Provenance } from './add-memory.ts';
import { endDisputes } from './conflicts.ts';
import { checkContradictions } from './contradictions.ts';
import { modelOf } from './embed-memories.ts';
import { proposeMemories, saidIn, type ExtractionContext, type Proposed } from './extract/propose.ts';
import { taintOf } from './extract/taint.ts';
import { findLike, type FoundMemory } from './recall.ts';
import { promptOf } from './remember.ts';

export type Extracted =
  | { added: number; superseded: number; refused: number }
  | { skipped: number }
  | { later: number };

/** So many of the newest entries are shown beside those similar to the turn. */
const NEWEST = 20;

/** Learns from a turn, once. If no model can be asked now, the turn stays due. */
export async function extractMemories(
  context: ExtractionContext,
  { tenantId, agentId, turnId }: ExtractionJob,
  stop: AbortSignal,
): Promise<Extracted> {
  const turn = await context.db.withTenant(tenantId, (tx) => findDueExtraction(tx, turnId));
  if (!turn) return { skipped: 1 };
  const pins = { tenantId, agentId, agentVersion: turn.agent_version, tools: [] };
  const { definition } = await context.definitions.load(pins);
  const model = await modelOf(context, { tenantId, agentId });
  const owner = { tenantId, agentId };
  const said = { text: saidIn(turn), at: context.clock(), topK: 12, model };
  const whose = { userId: turn.config.session?.user_id, isApart: keepsApart(memorySettings(definition)) };
  // None of other users: this one may not correct those.
  const like = await findLike(context, { ...owner, whose }, said);
  const shown = await shownTo(context, { owner, whose, like });
  const asked = { tenantId, turn, definition, shown };
  const proposed = await proposeMemories(context, { ...asked, mayWait: mayAskAgain(turn.attempts) }, stop);
  if (proposed.kind === 'later') {
    await context.db.withTenant(tenantId, (tx) => delayExtraction(tx, turnId, secondsUntilAsked(turn.attempts)));
    return { later: 1 };
  }
  const vectors = model === undefined ? undefined : await vectorsOf(context, { owner, model, proposed, stop });
  const learning = { ...asked, proposed, owner, whose, model, vectors, at: context.clock() };
  const judged = await context.db.withTenant(tenantId, (tx) => learn(tx, learning));
  if (!judged) return { skipped: 1 };
  for (const [rule, count] of Object.entries(judged.refused)) context.metrics.memoriesRefused.inc({ rule }, count);
  const [added, superseded] = [judged.add.length, judged.supersede.length];
  if (added + superseded > 0) embedSoon(context, owner);
  return { added, superseded, refused: Object.values(judged.refused).reduce((sum, each) => sum + each, 0) };
}

/** Entries similar to the turn, and the newest from users. */
async function shownTo(
  { db }: ExtractionContext,
  { owner, whose, like }: { owner: Learning['owner']; whose: Whose; like: readonly { entry: FoundMemory }[] },
): Promise<ShownMemory[]> {
  const near = like.map(({ entry }) => entry);
  const newest = { agentId: owner.agentId, whose, limit: NEWEST };
  const said = await db.withTenant(owner.tenantId, (tx) => listNewestSaid(tx, newest));
  return [...near, ...said.filter(({ id }) => near.every((entry) => entry.id !== id))];
}

interface Learning {
  owner: { tenantId: string; agentId: string };
  whose: Whose;
  turn: LearntTurn;
  definition: AgentDefinition;
  shown: readonly ShownMemory[];
  proposed: Extract<Proposed, { kind: 'made' }>;
  model: string | undefined;
  /** Of the texts to add, in order; undefined if none could be made. */
  vectors: readonly string[] | undefined;
  /** From when the learnt facts hold. */
  at: Date;
}

/** Stores all or nothing; undefined if another process has done it or the run was erased. */
async function learn(tx: Tx, learning: Learning): Promise<Judged | undefined> {
  const { owner, turn, proposed } = learning;
  await lockMemoryOf(tx, owner.agentId);
  if (!(await lockExtraction(tx, turn.turn_id))) return undefined;
  const judged = judgeProposal(proposed.proposal, await gather(tx, learning));
  const added: string[] = [];
  for (const { content, memory_type, importance, origin, tags } of judged.add) {
    const metadata = { role: 'user', ...userOf(turn), ...(tags && { tags }) };
    const memory = { content, memory_type, importance, thread_id: turn.thread_id, metadata, valid_from: learning.at };
    added.push((await addMemory(tx, toMemoryRow(memory, provenanceOf(learning, { content, origin })))).id);
  }
  const superseded: string[] = [];
  for (const { id, content, reason, origin } of judged.supersede) {
    const entry = await findMemory(tx, { agentId: owner.agentId, id, lock: true });
    if (!entry) continue;
    const { memory_type, importance, relevance_score, metadata } = entry;
    const next = {
      content,
      memory_type,
      importance,
      relevance_score,
      metadata,
      thread_id: turn.thread_id,
      valid_from: learning.at,
    };
    const row = toMemoryRow(next, provenanceOf(learning, { content, origin }), entry);
    if (!(await supersedeMemory(tx, { id, by: row.id, validTo: learning.at, reason: null }))) continue;
    if (entry.status === 'disputed') await endDisputes(tx, { ...owner, workspaceId: turn.workspace_id, ids: [id] });
    await insertMemories(tx, [{ ...row, reason: reason.slice(0, 1000) }]);
    superseded.push(row.id);
  }
  const { tenantId, agentId } = owner;
  const by = { tenantId, workspaceId: turn.workspace_id, agentId, definition: learning.definition, by: { tenantId } };
  await checkContradictions(tx, { ...by, ids: [...added, ...superseded] });
  await finishExtraction(tx, turn.turn_id, { added, superseded, refused: judged.refused, made_by: proposed.by });
  return judged;
}

async function gather(tx: Tx, { owner, whose, turn, definition, shown, ...rest }: Learning): Promise<Evidence> {
  const { proposed, model, vectors } = rest;
  const texts = proposed.proposal.add.map(({ content }) => content);
  const similar = new Map<string, string[]>();
  for (const content of texts) {
    const same = await findSameText(tx, { ...owner, whose, hash: hashOf(content) });
    if (same) similar.set(content, [same.content]);
  }
  const near =
    model === undefined || vectors === undefined || vectors.length === 0
      ? []
      : await findNearTexts(tx, { agentId: owner.agentId, whose, model, vectors, leastCosine: DUPLICATE_COSINE });
  for (const { place, content } of near) {
    const text = texts[place] ?? '';
    similar.set(text, [...(similar.get(text) ?? []), content]);
  }
  return {
    systemPrompt: promptOf(definition),
    recalled: turn.given.map(({ content }) => content),
    shown: await stillLive(tx, owner.agentId, shown),
    similar,
    userText: saidIn(turn),
    taintedBy: taintOf(turn),
  };
}

/** Those shown entries that were not corrected or forgotten since. */
async function stillLive(tx: Tx, agentId: string, shown: readonly ShownMemory[]): Promise<ShownMemory[]> {
  const live: ShownMemory[] = [];
  for (const { id } of shown) {
    const entry = await findMemory(tx, { agentId, id });
    if (entry && (entry.status === 'active' || entry.status === 'disputed')) live.push(entry);
  }
  return live;
}

function provenanceOf(
  { owner, turn }: Learning,
  { content, origin }: { content: string; origin: Provenance['origin'] },
): Provenance {
  const seq = (origin === 'user' ? heardIn(turn.heard, content)?.seq : turn.ended_at) ?? undefined;
  return { ...owner, origin, runId: turn.run_id, turnId: turn.turn_id, seq };
}

/** The session's user, if the run belongs to one. */
function userOf({ config }: LearntTurn): { user_id?: string } {
  return config.session ? { user_id: config.session.user_id } : {};
}

/** Vectors to find near-duplicates by; undefined if they fail: then only equal words count as the same. */
async function vectorsOf(
  { embeddings, log }: ExtractionContext,
  of: { owner: Learning['owner']; model: string; proposed: Learning['proposed']; stop: AbortSignal },
): Promise<string[] | undefined> {
  const texts = of.proposed.proposal.add.map(({ content }) => content);
  if (texts.length === 0) return [];
  const payer = { ...of.owner, purpose: 'memory_embeddings' } as const;
  try {
    return (await embeddings.embed(of.model, texts, { signal: of.stop, payer })).map((vector) => toVector(vector));
  } catch (error) {
    of.stop.throwIfAborted();
    log.warn({ err: error, model: of.model }, 'no vectors to compare memories by');
    return undefined;
  }
}
