/** The built-in tools `remember` and `recall`. */
import { isTrusted } from '../../core/memory/entry.ts';
import { junkRuleOf, type JunkRule } from '../../core/memory/junk.ts';
import { memorySettings, type AgentDefinition } from '../../core/definition.ts';
import { timeOf } from '../../core/memory/candidate.ts';
import { concerns, keepsApart } from '../../core/memory/whose.ts';
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import { findAgent } from '../../db/agents.ts';
import { readRunOwner } from '../../db/files.ts';
import type { Tx } from '../../db/database.ts';
import { newId } from '../../lib/new-id.ts';
import { findSameText } from '../../db/memory-entries.ts';
import { lockMemoryOf } from '../../db/memory-lock.ts';
import { noteWrite } from '../../db/memory-uses.ts';
import { hasToldForgotten } from '../../db/memory-forget.ts';
import { findCallPlace } from '../../db/memory-extractions.ts';
import { findCandidates } from '../../db/memory-search.ts';
import { findRunRow } from '../../db/runs.ts';
import type { DomainArguments } from '../../tools/builtin/builtin-type.ts';
import { addMemory, embedSoon, hashOf, toMemoryRow, type NewMemory, type Provenance } from './add-memory.ts';
import type { MemoryContext } from './memory-context.ts';
import { checkContradictions } from './contradictions.ts';
import { modelOf } from './embed-memories.ts';
import { ownersOf } from './give-memories.ts';
import { recall } from './recall.ts';

/** The outcome for a text that an agent wants to remember. */
type Remembered = { id: string; added: boolean } | { refused: JunkRule };

const REFUSALS: Readonly<Partial<Record<JunkRule, string>>> = {
  too_short: 'It says too little: a memory is a sentence that stands by itself.',
  secret: 'It looks like a secret, which is not to be remembered.',
  system_prompt: 'It repeats your instructions, which you have anyway.',
  recalled_text: 'It repeats what is remembered already.',
  duplicate: 'It is remembered already.',
};

/** `{content, memory_type?, subject?} → {id, added}`. A text that is remembered already gives the existing id. */
export async function rememberCall(
  context: MemoryContext,
  attempt: ToolAttempt<DomainArguments['remember']>,
): Promise<ToolOutcome> {
  const { content, memory_type: type = 'SEMANTIC', subject } = attempt.arguments;
  const { tenantId, runId } = attempt;
  const done = await context.db.withTenant(tenantId, async (tx) => {
    const run = runId === '' ? undefined : await findRunRow(tx, runId);
    // Locked, so that an erasure meanwhile also covers what is remembered here.
    if (!run || !(await readRunOwner(tx, runId))) return undefined;
    // After the run, as in an erasure. Of two simultaneous calls the second sees the text of the first.
    await lockMemoryOf(tx, run.agent_id);
    if (await hasToldForgotten(tx, attempt.toolCallId)) return 'forgotten';
    const userId = run.config.session?.user_id;
    const memory = {
      content,
      memory_type: type,
      thread_id: run.thread_id,
      metadata: { ...(subject !== undefined && { subject }), ...(userId !== undefined && { user_id: userId }) },
    };
    const place = await findCallPlace(tx, { runId, callId: attempt.toolCallId });
    // Untrusted content read before may have prompted it.
    const origin = place?.is_tainted ? ('tool' as const) : ('agent' as const);
    const at = { runId, turnId: place?.turn_id, seq: place?.seq ?? undefined };
    const from = { tenantId, agentId: run.agent_id, origin, ...at };
    return { agentId: run.agent_id, result: await rememberText(tx, { ...memory, userId }, from) };
  });
  if (!done) return NO_RUN;
  if (done === 'forgotten') return FORGOTTEN;
  const { result, agentId } = done;
  if ('refused' in result) {
    context.metrics.memoriesRefused.inc({ rule: result.refused });
    return { kind: 'error', code: 'not_remembered', message: REFUSALS[result.refused] ?? 'A rule refuses it.' };
  }
  if (result.added) embedSoon(context, { tenantId, agentId });
  return { kind: 'succeeded', output: { ...result }, memories: [result.id] };
}

/** Remembers a text unless a rule refuses it or it is there already; entries that do not concern its user do not count. */
async function rememberText(
  tx: Tx,
  { userId, ...memory }: NewMemory & { userId: string | undefined },
  from: Provenance,
): Promise<Remembered> {
  const { tenantId, agentId } = from;
  const agent = await findAgent(tx, agentId);
  const whose = { userId, isApart: agent !== undefined && keepsApart(memorySettings(agent.definition)) };
  const same = await findSameText(tx, { tenantId, agentId, whose, hash: hashOf(memory.content) });
  if (same) {
    // So that forgetting it also clears this call.
    await noteWrite(tx, { access: newId(), tenantId, agentId, runId: from.runId, id: same.id });
    return { id: same.id, added: false };
  }
  const found = await findCandidates(tx, { agentId }, { text: memory.content, vector: undefined });
  const like = found.filter(({ metadata }) => concerns(metadata['user_id'], whose));
  const known = { systemPrompt: agent ? promptOf(agent.definition) : '', recalled: like.map(({ content }) => content) };
  const refused = junkRuleOf(memory.content, known);
  if (refused) return { refused };
  const { id } = await addMemory(tx, toMemoryRow(memory, from));
  if (agent) {
    const { workspace_id: workspaceId, definition } = agent;
    await checkContradictions(tx, { tenantId, workspaceId, agentId, definition, by: { tenantId }, ids: [id] });
  }
  return { id, added: true };
}

/** The agent's system prompt as text. */
export function promptOf({ system_prompt: prompt }: AgentDefinition): string {
  if (prompt === undefined || typeof prompt === 'string') return prompt ?? '';
  return [prompt.role, prompt.instructions].filter(Boolean).join('\n');
}

/**
 * `{query, top_k?} → {entries}`: data with its provenance. Only the user's and the thread's if the agent separates
 * those.
 */
export async function recallCall(
  context: MemoryContext,
  attempt: ToolAttempt<DomainArguments['recall']>,
): Promise<ToolOutcome> {
  const { query, top_k: topK = 5 } = attempt.arguments;
  const { tenantId, runId } = attempt;
  const asking = runId === '' ? undefined : await context.db.withTenant(tenantId, (tx) => findAsking(tx, runId));
  if (!asking) return NO_RUN;
  const { agentId, ownedBy } = asking;
  if (ownedBy === 'nobody') return { kind: 'succeeded', output: { entries: [] } };
  const owner = { tenantId, agentId };
  const question = { text: query, at: context.clock(), topK, model: await modelOf(context, owner) };
  const hits = await recall(context, { ...owner, ownedBy, runId, operation: 'recall' }, question);
  const entries = hits.map(({ entry, score, validity }) => ({
    id: entry.id,
    content: entry.content,
    memory_type: entry.memory_type,
    at: new Date(timeOf(entry)).toISOString(),
    origin: entry.origin,
    trusted: isTrusted(entry.origin),
    ...(entry.status === 'disputed' && { disputed: true }),
    ...(validity === 'ended' && { no_longer_valid_since: entry.valid_to?.toISOString() }),
    ...(validity === 'not_yet' && { not_valid_before: entry.valid_from?.toISOString() }),
    score,
  }));
  const isUntrusted = entries.some(({ trusted }) => !trusted);
  const memories = entries.map(({ id }) => id);
  return { kind: 'succeeded', output: { entries }, memories, ...(isUntrusted && { untrusted: true }) };
}

/** The run's agent, and the owners whose memories it may ask for. */
async function findAsking(tx: Tx, runId: string) {
  const run = await findRunRow(tx, runId);
  const agent = run && (await findAgent(tx, run.agent_id));
  if (!agent) return undefined;
  const settings = memorySettings(agent.definition);
  // Fragments of spaces are not the agent's entries: with that scope alone, it may recall all of its own.
  const ownedBy = keepsApart(settings)
    ? ownersOf({ userId: run.config.session?.user_id, threadId: run.thread_id }, settings)
    : undefined;
  return { agentId: agent.id, ownedBy };
}

/** For a repeated attempt whose earlier entry was forgotten. */
const FORGOTTEN: ToolOutcome = {
  kind: 'error',
  code: 'not_remembered',
  message: 'Somebody has had it forgotten meanwhile.',
};

const NO_RUN: ToolOutcome = {
  kind: 'error',
  code: 'no-run',
  message: 'An agent remembers and recalls within a run alone.',
};
