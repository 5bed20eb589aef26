/** One question to the models of a run: the first that answers, each tried several times. */
import { setTimeout as sleep } from 'node:timers/promises';
import { recordFallback, recordModelFailure } from '../../../core/decision-events/model-calls.ts';
import type { Decision } from '../../../core/decide.ts';
import { DroverError } from '../../../core/errors.ts';
import { LIMITS } from '../../../core/limits.ts';
import { CONTEXT_OVERFLOW, ModelError, type ModelResponse } from '../../../core/model.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { primaryModelOf } from '../../agents/effective-limits.ts';
import { startDeadline, type Deadline } from '../../../lib/deadline.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import { partialText } from './partial-answer.ts';
import { fitContext, sourceOf, toRequest, windowOf } from './build-request.ts';
import { recordCut } from './record-cut.ts';
import type { DriveSession } from './session.ts';
import { charge, backOff, acquire, recordRetry } from './rate-limiter.ts';

type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** The turn's driving time ran out while the model was thinking, or no model could be asked or could answer. */
export class TurnFailure extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'TurnFailure';
    this.code = code;
  }
}

/** Asks the model that is next: those that have failed this call already are left out. Throws TurnFailure, ThrottledError. */
export async function askModels(session: DriveSession, call: CallModel): Promise<ModelResponse> {
  const budgetMs = session.limits.turnTimeoutMs - (session.log.state.turn?.drivenMs ?? 0);
  const deadline = startDeadline(Math.max(1, Math.min(budgetMs, LIMITS.modelTimeoutMs)), session.signal);
  try {
    return await askWithin(session, call, deadline);
  } finally {
    deadline.clear();
  }
}

async function askWithin(session: DriveSession, call: CallModel, deadline: Deadline): Promise<ModelResponse> {
  const { signal } = deadline;
  const { failures } = callOf(session);
  const models = modelsFor(session);
  const left = models.slice(Math.min(failures, models.length - 1));
  let failure: ModelError | undefined;
  for (const [index, resolved] of left.entries()) {
    if (failure) fallBack(session, { from: left[index - 1] ?? resolved, to: resolved, failure });
    const tooLong = overflow(session, resolved);
    const passedTokens = tooLong ? 0 : await acquire(session, resolved, call);
    const answer = tooLong ?? (await attempts(session, { resolved, call, signal, isLast: index === left.length - 1 }));
    if (!(answer instanceof ModelError)) {
      await charge(session, { resolved, answer, passedTokens });
      return answer;
    }
    session.signal.throwIfAborted();
    const late = deadline.ended() === 'timeout' ? timedOut(session) : undefined;
    const partial = partialText(session.uncommitted.partial);
    const { code, message } = late ?? { code: answer.kind, message: answer.message };
    const failed = { model: resolved.model, error: { code, message }, ...(partial !== undefined && { partial }) };
    appendEvent(session.log, recordModelFailure(session.log.state, call.step, failed));
    if (late) throw late;
    failure = answer;
  }
  if (failure?.kind === 'context_too_long') throw new TurnFailure(CONTEXT_OVERFLOW, failure.message);
  throw new TurnFailure(`model_${failure?.kind ?? 'unavailable'}`, failure?.message ?? 'No model could be asked.');
}

/** The error of a call that cannot be made: what must be sent is longer than what the model takes. */
function overflow(session: DriveSession, resolved: ResolvedModel): ModelError | undefined {
  const source = sourceOf(session);
  const window = windowOf(source.limits, resolved);
  const { tokens, room } = fitContext(source, window);
  if (tokens <= room.most) return undefined;
  const message =
    `The current turn alone has about ${tokens} tokens, and ${resolved.provider}/${resolved.model} leaves room for ${room.most}: ` +
    `it takes ${window}, less the answer, the system prompt and the tools (DROVER_CONTEXT_WINDOWS says otherwise).`;
  return new ModelError('context_too_long', message);
}

function timedOut({ limits }: DriveSession): TurnFailure {
  return new TurnFailure('turn_timeout', `The turn used up its ${limits.turnTimeoutMs / 1000} s of driving time.`);
}

function callOf({ log: { state } }: DriveSession): { failures: number; retries: number } {
  return { failures: state.modelCall?.failures ?? 0, retries: state.modelCall?.retries ?? 0 };
}

interface Asked {
  resolved: ResolvedModel;
  call: CallModel;
  signal: AbortSignal;
  /** No other model is left to fall back to. */
  isLast: boolean;
}

/** The attempts of one model. They are counted in the log: those before a run was put off count too. */
async function attempts(session: DriveSession, asked: Asked): Promise<ModelResponse | ModelError> {
  const { resolved, call, signal, isLast } = asked;
  for (;;) {
    const attempt = callOf(session).retries + 1;
    try {
      return await attemptOnce(session, asked);
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      if (!error.transient || signal.aborted) return error;
      const isThrottled = error.kind === 'rate_limited' || error.kind === 'overloaded';
      if (attempt >= (isThrottled && isLast ? LIMITS.throttledAttempts : LIMITS.modelAttempts)) return error;
      const { step } = call;
      if (isThrottled) return await backOff(session, { resolved, error, attempt, step });
      const waitMs = Math.round(Math.max(error.retryAfterMs ?? 0, 500 * 2 ** attempt * (0.5 + Math.random())));
      recordRetry(session, { model: resolved.model, error, attempt, step, waitMs });
      await sleep(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }
}

function attemptOnce(session: DriveSession, { resolved, call, signal }: Asked): Promise<ModelResponse> {
  const request = toRequest(session, { resolved, toolChoice: call.toolChoice });
  const maxTokens = Math.min(request.maxTokens, session.step.reservation?.granted?.output ?? request.maxTokens);
  const turnId = session.log.state.turn?.id ?? '';
  const { step } = call;
  const partial = { model: resolved.model, step, text: '' };
  session.uncommitted.partial = partial;
  return resolved.stream(
    { ...request, maxTokens },
    {
      signal,
      onDelta: (delta) => {
        if (delta.type === 'text') partial.text += delta.text;
        session.context.bus.publish({ runId: session.run.id, kind: 'delta', turnId, step, delta });
      },
    },
  );
}

/** The model of the run, then those fallbacks of its definition that this process has a key for. Throws TurnFailure. */
export function modelsFor(session: DriveSession): [ResolvedModel, ...ResolvedModel[]] {
  const { llm_config: llm, model_preferences: preferences } = session.definition;
  const first = resolve(session, primaryModelOf(session.definition, session.run.config.model_override));
  if (first instanceof DroverError) throw new TurnFailure('model_unavailable', first.message);
  const fallbacks = [llm?.fallback_model, ...(preferences?.fallback_models ?? [])].flatMap((name) => {
    const found = name === undefined ? undefined : resolve(session, name);
    return found === undefined || found instanceof DroverError ? [] : [found];
  });
  return [first, ...fallbacks];
}

function resolve(session: DriveSession, name: string | undefined): ResolvedModel | DroverError {
  try {
    return session.context.models.resolve(name);
  } catch (error) {
    if (error instanceof DroverError) return error;
    throw error;
  }
}

function fallBack(
  session: DriveSession,
  change: { from: ResolvedModel; to: ResolvedModel; failure: ModelError },
): void {
  const { from, to, failure } = change;
  session.context.log.warn(
    { run: session.run.id, from: from.model, to: to.model, kind: failure.kind },
    'model fell back',
  );
  const error = { code: failure.kind, message: failure.message };
  appendEvent(session.log, recordFallback(session.log.state, { from: from.model, to: to.model, error }));
  recordCut(session, to);
}
