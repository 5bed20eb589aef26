/** Think: one model call, with its retries and its fallback, and its answer turned into events, messages and calls. */
import type { AssistantBlock } from '../../../core/content.ts';
import { cleanJson } from '../../../core/content.ts';
import { recordAnswer, rejectEmptyAnswer } from '../../../core/decision-events/model-calls.ts';
import { decide, type Decision } from '../../../core/decide.ts';
import { canonicalJson } from '../../../core/ids.ts';
import { newId } from '../../../lib/new-id.ts';
import { callsOf, faultOfEmpty, intentsOf, type Intent } from '../../../core/intents.ts';
import type { ModelResponse } from '../../../core/model.ts';
import { costOf, costsOf, isLongContext } from '../../../llm/prices.ts';
import { bindingOf } from '../../../core/tool-bindings.ts';
import { countRecentCalls } from '../../../db/recent-calls.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { runPureCalls } from './act.ts';
import { announceNext } from './announce.ts';
import { askModels, modelsFor } from './ask-model.ts';
import { checkFinalAnswer } from './check-answer.ts';
import { commit } from './commit.ts';
import { settleAnswer } from '../../budgets/hold-to-budget.ts';
import { appendEvent, appendMessage, mark, rewind } from '../../run-log/run-log.ts';
import { recordedAnswer, type AskedModel } from './replay-source.ts';
import { requestCalls, type AskedIn } from './request-calls.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import { toRequest } from './build-request.ts';
import type { DriveSession } from './session.ts';

const PATIENCE_MS = 30_000;

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** Calls the model and commits what it answered, unless the turn ends or is handed over with it: then that commits. */
export async function think(session: DriveSession, call: CallModel): Promise<void> {
  const startedMs = performance.now();
  const record = { state: session.log.state, replaySource: session.replaySource };
  const replayed = recordedAnswer(record, call.step, () => firstRequest(session, call));
  const recorded = replayed?.kind === 'same';
  const response = recorded ? replayed.response : await askModels(session, call);
  const latencyMs = Math.round(performance.now() - startedMs);
  const content = usable(response, call, session);
  const paused = response.stopReason === 'pause_turn' && !session.log.state.turn?.maxStepsReached;
  const isLast = call.last || response.stopReason === 'refusal';
  const intents = intentsOf({ content, paused, isLast }, session.tools);
  const empty = intents.length === 0 && !paused ? faultOfEmpty(response.stopReason) : undefined;
  const calls = callsOf(intents).length;
  const cost = recorded ? '0' : costOf(response.provider, response.model, response.usage);
  if (!recorded) observe(session, { response, latencyMs, cost });
  const untrusted = content.some(({ type }) => type.endsWith('_tool_result'));
  const said = { role: 'assistant' as const, content, outcomes: null };
  const ordinal = appendMessage(session.log, untrusted ? { ...said, trust: 'untrusted' } : said);
  const answer = {
    ...response,
    untrusted,
    ...paidFor(response, recorded),
    step: call.step,
    ordinal,
    toolCalls: calls,
    cost,
    latencyMs,
  };
  const replay = recorded ? { recorded } : replayed?.kind === 'differs' ? { differs: replayed.differs } : undefined;
  const kinds = intents.map(({ kind }) => kind);
  appendEvent(session.log, recordAnswer(session.log.state, { ...answer, intents: kinds, empty, replay }));
  const usedUp = settleAnswer(session, { response, cost, recorded });
  if (empty && !usedUp) appendEvent(session.log, rejectEmptyAnswer(session.log.state, call.step, empty));
  checkFinalAnswer(session, { step: call.step, ordinal, content });
  if (calls > 0) await requestGated(session, intents, { step: call.step, usedUp });
  if (session.log.state.turn?.answer) return;
  if (calls === 0) goOn(session);
  // Where only others have something to do, the hand-over to them is the commit.
  const { kind } = decide(session.log.state, session.limits);
  if (kind !== 'await_calls' && kind !== 'open_waits') await commit(session);
}

/** What the cost of an answer is made of; nothing where the record gave it. */
function paidFor({ provider, model, usage }: ModelResponse, recorded: boolean) {
  if (recorded) return {};
  return { costs: costsOf(provider, model, usage), longContext: isLongContext(provider, model, usage) };
}

/** Requests the calls; if the policy epoch has advanced by the commit, they are gated once more from here. */
async function requestGated(session: DriveSession, intents: readonly Intent[], answer: AskedIn): Promise<void> {
  const point = mark(session.log);
  const { step } = session;
  const recent = await recentCalls(session);
  const recorded = session.replaySource && [...session.replaySource.calls];
  const request = async () => {
    requestCalls(session, intents, { ...answer, recent });
    await runPureCalls(session);
    goOn(session);
  };
  session.uncommitted.reauthorize = async () => {
    rewind(session.log, point);
    session.step = step;
    if (session.replaySource && recorded) session.replaySource.calls.splice(0, Infinity, ...recorded);
    await request();
  };
  await request();
}

/** Of tools that a binding limits; undefined for an agent without any. */
async function recentCalls({ context, tenantId, run, definition, tools, signal }: DriveSession) {
  if (!definition.tool_bindings?.some(({ rate_limit: limit }) => limit !== undefined)) return undefined;
  const limited = [...tools.values()].filter((tool) => bindingOf(definition, tool)?.rate_limit !== undefined);
  const names = limited.map(({ name }) => name);
  const of = { agentId: run.agent_id, runId: run.id, names };
  // The answer is paid for: a database that is away for a moment must not lose it.
  return retryWhileUnavailable(() => context.db.withTenant(tenantId, (tx) => countRecentCalls(tx, of)), {
    forMs: PATIENCE_MS,
    signal,
  });
}

function goOn(session: DriveSession): void {
  saveCheckpointIfDue(session);
  announceNext(session);
}

function firstRequest(session: DriveSession, call: CallModel): AskedModel {
  const [resolved] = modelsFor(session);
  return { provider: resolved.provider, request: toRequest(session, { resolved, toolChoice: call.toolChoice }) };
}

/**
 * The answer in canonical form; every tool use has an id that occurs once in the conversation. Where a part of that was not
 * read, nobody knows which ids it has, and a use gets a new one unless its own is random enough to be the only one.
 */
function usable(response: ModelResponse, call: CallModel, session: DriveSession): AssistantBlock[] {
  const { toolUseIds: taken, before } = session.log;
  const here = new Set<string>();
  const content = JSON.parse(canonicalJson(cleanJson(response.content))) as AssistantBlock[];
  return content.flatMap((block): AssistantBlock[] => {
    if (block.type !== 'tool_use') return [block];
    if (call.toolChoice === 'none') return [];
    const isAlone = before.messages === 0 || RANDOM_ID.test(block.id);
    const isNew = block.id && isAlone && !taken.has(block.id) && !here.has(block.id);
    const id = isNew ? block.id : `toolu_${newId().replaceAll('-', '')}`;
    here.add(id);
    return [{ ...block, id }];
  });
}

/** As Anthropic and OpenAI make them; servers that count their calls have shorter ones. */
const RANDOM_ID = /^[a-z]+_[A-Za-z0-9]{20,}$/;

function observe(
  session: DriveSession,
  call: { response: ModelResponse; latencyMs: number; cost: string | null },
): void {
  const { metrics } = session.context;
  const { model, usage } = call.response;
  metrics.stepSeconds.observe({ kind: 'model' }, call.latencyMs / 1000);
  metrics.tokens.inc({ model, kind: 'input' }, usage.input);
  metrics.tokens.inc({ model, kind: 'output' }, usage.output);
  metrics.tokens.inc({ model, kind: 'cache_read' }, usage.cache_read);
  metrics.tokens.inc({ model, kind: 'cache_write' }, usage.cache_write_5m + usage.cache_write_1h);
  if (call.cost !== null) metrics.costUsd.inc({ model }, Number(call.cost));
}
