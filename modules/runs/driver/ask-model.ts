/** Asks a run's models one question: each is tried several times, until one answers. */
import { setTimeout as sleep } from 'node:timers/promises';
import { recordFallback, recordModelFailure } from '../../../core/decision-events/model-calls.ts';
import { percentOf } from '../../../core/calibration.ts';
import { turnTimeout, type Decision } from '../../../core/decide.ts';
import { outageSeconds } from '../../../core/definition.ts';
import { DroverError } from '../../../core/errors.ts';
import { LIMITS } from '../../../core/limits.ts';
import { CONTEXT_OVERFLOW, ModelError, type AnswerPiece, type ModelResponse } from '../../../core/model.ts';
import { filesTakenBy } from '../../../llm/files-taken.ts';
import { fillFiles } from '../../files/model-content.ts';
import { OFFLINE } from '../../../llm/model-name.ts';
import { explainRejection } from '../../../llm/explain-rejection.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { fallbackModelsOf, primaryModelOf } from '../../agents/effective-limits.ts';
import { startDeadline, type Deadline } from '../../../lib/deadline.ts';
import { pauseBeforeRetry } from '../../model-calls/pause-before-retry.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { partialText } from './partial-answer.ts';
import { askedOf, fitContext, sourceOf, toRequest } from './build-request.ts';
import { modelOf } from './open-node.ts';
import { recordCut } from './record-cut.ts';
import { refusedFilesFor } from './refused-content.ts';
import { correctionFor, cutsMore, messageOfRefusal } from './refused-length.ts';
import { tellCalls } from './tell-calls.ts';
import { tellPieces } from './tell-pieces.ts';
import type { Drive, PartialAnswer } from './drive-state.ts';
import {
  defer,
  endOutages,
  leaveProbe,
  noteOutage,
  resume,
  type NotedOutage,
  type ParkedError,
} from './provider-outage.ts';
import { charge, backOff, acquire, recordRetry, ThrottledError, type Admission } from './rate-limiter.ts';
import { paidInVain } from './spending.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** The turn ran out of driving time during a model call, or no model could be asked or answered. */
export class TurnFailure extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'TurnFailure';
    this.code = code;
  }
}

/** An answer, and the model that was asked for it: its server may call it by another name. */
interface AskedAnswer {
  response: ModelResponse;
  asked: ResolvedModel;
}

/** Asks the next model, skipping those that have already failed this call. Throws TurnFailure, ThrottledError, ParkedError. */
export async function askModels(drive: Drive, call: CallModel): Promise<AskedAnswer> {
  const budgetMs = drive.limits.turnTimeoutMs - (drive.log.state.turn?.drivenMs ?? 0);
  // Each attempt has a limit of its own, kept in the providers' code, whose end does not end the turn.
  const deadline = startDeadline(Math.max(1, budgetMs), drive.signal);
  try {
    return await askWithin(drive, call, deadline);
  } finally {
    deadline.clear();
  }
}

async function askWithin(drive: Drive, call: CallModel, deadline: Deadline): Promise<AskedAnswer> {
  const { failures } = callOf(drive);
  const models = modelsFor(drive);
  const failed: Failed[] = [];
  for (const resolved of models.slice(Math.min(failures, models.length - 1))) {
    const before = failed.at(-1);
    if (before) {
      fallBack(drive, { from: before.resolved, to: resolved, problem: before.problem });
      reserveAgain(drive, 0);
    }
    const tooLong = overflow(drive, resolved);
    const admission = tooLong ? NOT_ASKED : await acquire(drive, resolved, call);
    if (admission.kind === 'away') {
      failed.push({ ...admission, resolved });
      continue;
    }
    const isLast = resolved === models.at(-1) && failed.every(({ noted }) => !noted);
    const asked = { resolved, call, deadline, admission, isLast };
    const answer = tooLong ?? (await askFitting(drive, asked));
    if (!(answer instanceof ModelError)) {
      await charge(drive, { resolved, answer, passedTokens: admission.tokens });
      resume(drive, { step: call.step, model: answer.model, at: admission.at });
      return { response: answer, asked: resolved };
    }
    failed.push(await recordFailed(drive, asked, answer));
  }
  throw giveUp(drive, call, failed);
}

/** For a model that is not asked, since it would refuse the request for its length. */
const NOT_ASKED: Admission = { kind: 'open', tokens: 0 };

interface Asked {
  resolved: ResolvedModel;
  call: CallModel;
  deadline: Deadline;
  admission: Exclude<Admission, { kind: 'away' }>;
  /** If it refuses the request, the turn fails. */
  isLast: boolean;
}

/** A model that gave no answer; `noted` if its provider may be back later. */
interface Failed {
  resolved: ResolvedModel;
  problem: { code: string; message: string };
  error?: ModelError;
  noted?: NotedOutage;
}

/** Asks one model, and once more with less of the conversation if it refuses that for its length. */
async function askFitting(drive: Drive, asked: Asked): Promise<ModelResponse | ModelError> {
  const { resolved, call } = asked;
  const answer = await askOne(drive, asked);
  const calibration = answer instanceof ModelError ? correctionFor(drive, resolved, answer) : undefined;
  if (!(answer instanceof ModelError) || !calibration || !cutsMore(drive, resolved, calibration)) return answer;
  const attempt = callOf(drive).retries + 1;
  recordRetry(drive, { resolved, error: answer, attempt, step: call.step, waitMs: 0, calibration });
  recordCut(drive, resolved);
  return askOne(drive, asked);
}

/**
 * Makes the attempts of one model. If the run asks on behalf of all waiting runs, it always reports the outcome to them. Any
 * answer ends what another run alone has met: a failure long after it is no second one.
 */
async function askOne(drive: Drive, asked: Asked): Promise<ModelResponse | ModelError> {
  const { admission } = asked;
  const isAway = (answer: ModelResponse | ModelError) =>
    answer instanceof ModelError && (answer.transient || asked.deadline.signal.aborted);
  if (admission.kind === 'open') {
    const answer = await attempts(drive, asked);
    if (admission.met && !isAway(answer)) await endOutages(drive, admission.met);
    return answer;
  }
  try {
    const answer = await attempts(drive, asked);
    if (!isAway(answer)) await endOutages(drive, admission.probed);
    else if (asked.deadline.signal.aborted) await leaveProbe(drive);
    return answer;
  } catch (error) {
    await leaveProbe(drive);
    throw error;
  }
}

/** Records the failure. Throws if the run was taken away or the turn's time is up. */
async function recordFailed(drive: Drive, asked: Asked, error: ModelError): Promise<Failed> {
  const { resolved, call, deadline, admission } = asked;
  const paid = paidInVain(drive, resolved, error);
  // If the turn has ended meanwhile, `keepPartialAnswer` records it.
  if (drive.uncommitted.partial) drive.uncommitted.partial.paid = paid;
  drive.signal.throwIfAborted();
  const late = deadline.ended() === 'timeout' ? timedOut(drive) : undefined;
  const partial = partialText(drive.uncommitted.partial);
  const said = admission === NOT_ASKED ? error.message : messageOfRefusal(drive, resolved, error);
  const { code, message } = late ?? { code: error.kind, message: said };
  const problem = { code, message };
  const written = partial === undefined ? {} : { partial };
  const calibration = admission === NOT_ASKED ? undefined : correctionFor(drive, resolved, error);
  const refused_files = asked.isLast && !late ? refusedFilesFor(drive, error) : undefined;
  const learned = { ...(calibration && { calibration }), ...(refused_files && { refused_files }) };
  const failed = { model: resolved.model, error: problem, ...paid, ...learned, ...written };
  appendEvent(drive.log, recordModelFailure(drive.log.state, call.step, failed));
  if (drive.uncommitted.partial) drive.uncommitted.partial.isRecorded = true;
  if (late) throw late;
  const { rateLimiter } = resolved;
  if (rateLimiter === null || !error.transient) return { resolved, problem, error };
  const probed = admission.kind === 'probe' ? admission.probed : undefined;
  return { resolved, problem, error, noted: await noteOutage(drive, { rateLimiter, error, probed }) };
}

/** No model has answered: ParkedError if one of them may be back, otherwise TurnFailure. */
function giveUp(drive: Drive, { step }: CallModel, failed: readonly Failed[]): ParkedError | TurnFailure {
  const away = failed.flatMap(({ noted, ...rest }) => (noted ? [{ ...rest, noted }] : []));
  const [first, ...others] = away;
  if (first) {
    const parked = defer(drive, { step, away: [first, ...others] });
    return parked ?? notWithin(drive, (others.at(-1) ?? first).problem.message);
  }
  const last = failed.at(-1);
  const advice = last?.error && explainRejection(last.resolved, last.error);
  if (advice !== undefined) return new TurnFailure('provider_rejected', advice);
  const { code, message } = last?.problem ?? { code: 'unavailable', message: 'No model could be asked.' };
  if (last?.error?.kind === 'context_too_long') return new TurnFailure(CONTEXT_OVERFLOW, message);
  return new TurnFailure(`model_${code}`, message);
}

/** The failure of a run that has waited for its provider for as long as allowed. */
export function notWithin({ definition }: Pick<Drive, 'definition'>, message: string): TurnFailure {
  const within = `within the ${outageSeconds(definition)} s of execution_config.provider_outage_seconds`;
  return new TurnFailure('provider_unavailable', `No model answered ${within}: ${message}`);
}

/** The error if the messages that must be sent exceed the agent's limit or the model's window; the call is not made. */
function overflow(drive: Drive, resolved: ResolvedModel): ModelError | undefined {
  const source = sourceOf(drive);
  const asked = askedOf(source.limits, resolved);
  const { tokens, room } = fitContext(source, asked);
  if (tokens <= room.most) return undefined;
  const name = `${resolved.provider}/${resolved.model}`;
  const counted = Math.ceil((tokens * percentOf(source.calibration, name)) / 100);
  const message =
    room.agentLimit === null
      ? `The current turn alone has about ${tokens} tokens, and ${name} leaves room for ${room.most}: ` +
        `it takes ${asked.window}, less the answer, the system prompt and the tools (DROVER_CONTEXT_WINDOWS says otherwise).`
      : `The current turn alone has about ${counted} tokens, and the agent's memory_config.short_term.max_tokens is ${room.agentLimit}.`;
  return new ModelError('context_too_long', message);
}

function timedOut({ limits }: Drive): TurnFailure {
  const { code, message } = turnTimeout(limits);
  return new TurnFailure(code, message);
}

function callOf({ log: { state } }: Drive): { failures: number; retries: number } {
  return { failures: state.modelCall?.failures ?? 0, retries: state.modelCall?.retries ?? 0 };
}

/** Attempts of one model. The log counts them, so that attempts before a run was put off count too. */
async function attempts(drive: Drive, asked: Asked): Promise<ModelResponse | ModelError> {
  const { resolved, call, deadline, admission } = asked;
  const { signal } = deadline;
  const { most, firstMs } = retriesOf(drive, admission);
  for (;;) {
    const attempt = callOf(drive).retries + 1;
    try {
      return await attemptOnce(drive, asked);
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      if (!error.transient || signal.aborted || attempt >= most) return error;
      const { step } = call;
      const isThrottled = error.kind === 'rate_limited' || error.kind === 'overloaded';
      if (isThrottled) return await backOff(drive, { resolved, error, attempt, step });
      // For a longer pause, asked for by the provider, the run waits without a worker.
      const waitMs = pauseBeforeRetry(error, { firstMs, attempt });
      if (waitMs === undefined) return error;
      recordRetry(drive, { resolved, error, attempt, step, waitMs });
      reserveAgain(drive, waitMs);
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** After an attempt that was paid in vain: what is reserved was for that one, so that budgets are asked again before the next. */
function reserveAgain({ step: { reservation, inVain } }: Drive, waitMs: number): void {
  if (reservation?.call && inVain) throw new ThrottledError(waitMs);
}

/** Most attempts of a model, and the pause before the second one (in ms), doubled each time. */
function retriesOf({ definition }: Drive, { kind }: Admission): { most: number; firstMs: number } {
  const { max_retries, base_delay } = { ...definition.model_preferences, ...definition.llm_config };
  const most = max_retries === undefined ? LIMITS.modelAttempts : max_retries + 1;
  return { most: kind === 'probe' ? 1 : most, firstMs: base_delay === undefined ? 1000 : base_delay * 1000 };
}

async function attemptOnce(drive: Drive, { resolved, call, deadline }: Asked): Promise<ModelResponse> {
  const request = toRequest(drive, { resolved, toolChoice: call.toolChoice });
  const maxTokens = Math.min(request.maxTokens, drive.step.reservation?.granted?.output ?? request.maxTokens);
  const turnId = drive.log.state.turn?.id ?? '';
  const { step } = call;
  const partial: PartialAnswer = { model: resolved.model, turnId, step, text: '' };
  drive.uncommitted.partial = partial;
  let at = 0;
  // Discards the calls shown by an earlier attempt.
  drive.step.callIds = [];
  const calls = tellCalls(drive, drive.step.callIds);
  const of = { tenantId: drive.run.tenant_id, taken: filesTakenBy(resolved) };
  const messages = await fillFiles(drive.context, of, request.messages);
  const { push, flush } = tellPieces(drive.context.bus, { subject: drive.run.id, turnId, step });
  const onDelta = (delta: AnswerPiece) => {
    if (delta.type === 'arguments') {
      const piece = calls.take(delta, at);
      if (piece) push(piece);
      return;
    }
    calls.leave();
    if (delta.type === 'text') partial.text += delta.text;
    push({ kind: 'delta', delta, at });
    at += delta.text.length;
  };
  return resolved.stream({ ...request, messages, maxTokens }, { signal: deadline.signal, onDelta }).finally(flush);
}

/** The run's model, then those of the definition's fallbacks for which this process has a key. Throws TurnFailure. */
export function modelsFor(drive: Drive): [ResolvedModel, ...ResolvedModel[]] {
  const name = primaryModelOf(drive.definition, drive.run.config.model_override ?? modelOf(drive));
  const first = resolve(drive, name);
  if (first instanceof DroverError) throw new TurnFailure('model_unavailable', first.message);
  const begunWith = drive.run.pinned.limits?.model;
  // If the process that began the run had a model, this one does not let the offline model make up the answer.
  if (
    first.provider === OFFLINE &&
    begunWith !== undefined &&
    begunWith.split('/', 1)[0] !== OFFLINE &&
    name === undefined
  ) {
    throw new TurnFailure(
      'model_unavailable',
      `The run was begun for ${begunWith}, and this worker has no API key for it: DROVER_MODEL and keys are those of the API's process.`,
    );
  }
  const fallbacks = fallbackModelsOf(drive.definition).flatMap((fallback) => {
    const found = resolve(drive, fallback);
    return found instanceof DroverError ? [] : [found];
  });
  return [first, ...fallbacks];
}

function resolve(drive: Drive, name: string | undefined): ResolvedModel | DroverError {
  try {
    return drive.context.models.resolve(name);
  } catch (error) {
    if (error instanceof DroverError) return error;
    throw error;
  }
}

function fallBack(
  drive: Drive,
  change: { from: ResolvedModel; to: ResolvedModel; problem: { code: string; message: string } },
): void {
  const { from, to, problem: error } = change;
  drive.context.log.warn({ run: drive.run.id, from: from.model, to: to.model, code: error.code }, 'model fell back');
  appendEvent(drive.log, recordFallback(drive.log.state, { from: from.model, to: to.model, error }));
  recordCut(drive, to);
}
