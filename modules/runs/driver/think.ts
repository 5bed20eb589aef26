/** Makes one model call, with retries and fallbacks, and turns its answer into events, messages and calls. */
import { ZodError } from 'zod';
import type { AssistantBlock } from '../../../core/content.ts';
import { cleanJson, noteReplaced } from '../../../core/content.ts';
import { recordAnswer, recordFile, rejectEmptyAnswer } from '../../../core/decision-events/model-calls.ts';
import { decide, type Decision } from '../../../core/decide.ts';
import { canonicalValue } from '../../../core/canonical-json.ts';
import { newId } from '../../../lib/new-id.ts';
import { callsOf, faultOfEmpty, intentsOf, type EmptyFault } from '../../../core/intents.ts';
import type { ModelResponse } from '../../../core/model.ts';
import { priceOfAnswer, type AnswerPrice } from '../../../llm/prices.ts';
import { askModels, modelsFor } from './ask-model.ts';
import { checkFinalAnswer } from './check-answer.ts';
import { commit } from './commit.ts';
import { settleAnswer } from '../../budgets/hold-to-budget.ts';
import { keepGeneratedFiles } from '../../files/generated-files.ts';
import { appendEvent, appendMessage, mark, rewind } from '../../run-log/run-log.ts';
import { recordedAnswer, type AskedModel } from './replay-source.ts';
import { goOn, requestGated } from './request-gated.ts';
import { toRequest } from './build-request.ts';
import { offeredTools } from './open-node.ts';
import type { Drive } from './drive-state.ts';
import { countSpending } from '../../model-calls/count-spending.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/**
 * Calls the model and commits its answer, unless the turn ends or the drive yields with it: then that commits. An answer that
 * cannot be stored counts as empty: it was paid for, and nothing else would record that.
 */
export async function think(drive: Drive, call: CallModel): Promise<void> {
  const startedMs = performance.now();
  const record = { state: drive.log.state, replaySource: drive.replaySource };
  const replayed = recordedAnswer(record, call.step, () => firstRequest(drive, call));
  const recorded = replayed?.kind === 'same';
  const { response, price } = recorded ? { response: replayed.response, price: FREE } : await askPriced(drive, call);
  const latencyMs = Math.round(performance.now() - startedMs);
  if (!recorded) observe(drive, { response, latencyMs, cost: price.cost });
  const { partial } = drive.uncommitted;
  if (partial && !recorded) {
    partial.paid = { provider: response.provider, usage: response.usage, cost_usd: price.cost };
  }
  const learned = recorded && replayed.calibration ? { calibration: replayed.calibration } : {};
  const replay = recorded
    ? { recorded, ...learned }
    : replayed?.kind === 'differs'
      ? { differs: replayed.differs }
      : undefined;
  const answered = { call, response, latencyMs, price, recorded, replay };
  const point = mark(drive.log);
  const { reservation } = drive.step;
  try {
    await take(drive, answered);
  } catch (error) {
    if (recorded || !isUnfit(error)) throw error;
    drive.context.log.error({ run: drive.run.id, err: error }, 'an answer of a model cannot be kept');
    rewind(drive.log, point);
    drive.step.reservation = reservation;
    await take(drive, { ...answered, response: { ...response, content: [], files: [] }, fault: UNFIT });
  }
}

/** An answer from the record was paid for where it was given. */
const FREE: AnswerPrice = { cost: '0' };

async function askPriced(drive: Drive, call: CallModel): Promise<{ response: ModelResponse; price: AnswerPrice }> {
  const { response, asked } = await askModels(drive, call);
  return { response, price: priceOfAnswer(asked.model, response) };
}

const UNFIT: EmptyFault = { code: 'empty_answer', message: 'The answer had a form that cannot be kept.' };

/** Whether an error will recur: content that does not fit our schemas, our code, or the database's types. */
function isUnfit(error: unknown): boolean {
  if (error instanceof ZodError || error instanceof TypeError || error instanceof RangeError) return true;
  return error instanceof Error && 'code' in error && /^(22|54)[0-9A-Z]{3}$/.test(String(error.code));
}

interface Answered {
  call: CallModel;
  response: ModelResponse;
  latencyMs: number;
  price: AnswerPrice;
  recorded: boolean;
  replay: Parameters<typeof recordAnswer>[1]['replay'];
  /** Why nothing of the answer is taken. */
  fault?: EmptyFault;
}

async function take(drive: Drive, { call, response, recorded, price, ...answered }: Answered): Promise<void> {
  const { latencyMs, replay, fault } = answered;
  const content = usable(response, call, drive);
  const files = recorded ? [] : await keepGeneratedFiles(drive.context, filesFor(drive), response);
  const paused = response.stopReason === 'pause_turn' && !drive.log.state.turn?.maxStepsReached;
  const isLast = call.last || response.stopReason === 'refusal';
  const offered = offeredTools(drive);
  const intents = intentsOf({ content, paused, isLast }, offered);
  const empty = fault ?? (intents.length === 0 && !paused ? faultOfEmpty(response.stopReason) : undefined);
  const calls = callsOf(intents).length;
  const untrusted = content.some(({ type }) => type.endsWith('_tool_result'));
  const said = { role: 'assistant' as const, content, outcomes: null };
  const ordinal = appendMessage(drive.log, untrusted ? { ...said, trust: 'untrusted' } : said);
  const answer = {
    ...response,
    untrusted,
    ...noteReplaced(response.content),
    ...price,
    step: call.step,
    ordinal,
    toolCalls: calls,
    latencyMs,
  };
  const kinds = intents.map(({ kind }) => kind);
  appendEvent(drive.log, recordAnswer(drive.log.state, { ...answer, intents: kinds, empty, replay }));
  appendEvent(drive.log, ...files.map((fact) => recordFile(drive.log.state, call.step, fact)));
  const usedUp = settleAnswer(drive, { response, cost: price.cost, recorded });
  if (empty && !usedUp) appendEvent(drive.log, rejectEmptyAnswer(drive.log.state, call.step, empty));
  // A node's answer is checked when the graph ends with it, since only then it is the turn's.
  const isOfNode = drive.limits.graph !== undefined && drive.log.state.graph?.open === true;
  if (!isOfNode || call.last) checkFinalAnswer(drive, { step: call.step, ordinal, content });
  const shownIds = shownIdsOf(drive, content);
  if (calls > 0) await requestGated(drive, intents, { step: call.step, usedUp, offered, shownIds });
  if (drive.log.state.turn?.answer) return;
  if (calls === 0) goOn(drive);
  // If only others have something to do, the drive's yielding to them commits.
  const { kind } = decide(drive.log.state, drive.limits);
  if (kind !== 'await_calls' && kind !== 'open_waits') await commit(drive);
}

/** By tool use: call ids shown while the answer was written. */
function shownIdsOf({ step }: Drive, content: readonly AssistantBlock[]): ReadonlyMap<string, string> {
  const uses = content.filter((block) => block.type === 'tool_use');
  return new Map(step.callIds.slice(0, uses.length).map((id, place) => [uses[place]?.id ?? '', id]));
}

function filesFor({ tenantId, run, signal }: Drive) {
  return { tenantId, runId: run.id, signal };
}

function firstRequest(drive: Drive, call: CallModel): AskedModel {
  const [resolved] = modelsFor(drive);
  return { provider: resolved.provider, request: toRequest(drive, { resolved, toolChoice: call.toolChoice }) };
}

/**
 * The answer in canonical form; tool use ids are unique in the conversation. If part of it was not read, its ids are unknown:
 * a use then gets a new id, unless its own is random enough to be unique.
 */
function usable(response: ModelResponse, call: CallModel, drive: Drive): AssistantBlock[] {
  const { toolUseIds: taken, before } = drive.log;
  const here = new Set<string>();
  const content = canonicalValue(cleanJson(response.content));
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

/** The form of Anthropic and OpenAI; servers that number their calls have shorter ids. */
const RANDOM_ID = /^[a-z]+_[A-Za-z0-9]{20,}$/;

function observe(drive: Drive, call: { response: ModelResponse; latencyMs: number; cost: string | null }): void {
  const { provider, model, usage } = call.response;
  drive.context.metrics.stepSeconds.observe({ kind: 'model' }, call.latencyMs / 1000);
  countSpending(drive.context, { provider, model, usage, cost: call.cost });
}
