/** Events of a model call: announced, answered, failed. */
import type { Decision } from '../decide.ts';
import type { NewEvent } from '../events.ts';
import { invalidAnswersBefore, type EmptyFault } from '../intents.ts';
import type { ModelResponse } from '../model.ts';
import type { RunState } from '../state.ts';

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];
type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** For the last `call_model` of a turn: the step limit is reached. */
export function reachStepLimit({ turn }: RunState, call: Pick<CallModel, 'last'>, limit: number): NewEvent[] {
  if (!call.last || turn?.maxStepsReached) return [];
  return [{ type: 'run.max_steps_reached', actor: 'system', turn_id: turn?.id, payload: { limit } }];
}

/** The model to ask, and the length of the conversation. */
type Announced = Omit<Payload<'model.called'>, 'tool_choice'>;

/** The decision `call_model`, committed before the call. */
export function announceModelCall({ turn }: RunState, call: CallModel, asked: Announced): NewEvent {
  const payload = { ...asked, tool_choice: call.toolChoice };
  return { type: 'model.called', actor: 'agent', turn_id: turn?.id, step: call.step, payload };
}

/** The next model call's conversation starts at another message than the last one's. */
export function recordContextCut({ turn }: RunState, cut: Payload<'context.transformed'>): NewEvent {
  return { type: 'context.transformed', actor: 'system', turn_id: turn?.id, payload: cut };
}

/** From here on, something shorter is sent in place of the beginning of the conversation. */
export function recordCompaction({ turn }: RunState, step: number, payload: Payload<'context.compacted'>): NewEvent {
  return { type: 'context.compacted', actor: 'system', turn_id: turn?.id, step, payload };
}

/** An answer in the form in which it is stored. */
interface Answered extends Omit<ModelResponse, 'content'> {
  step: number;
  ordinal: number;
  toolCalls: number;
  intents: NonNullable<Payload<'model.responded'>['intents']>;
  /** Set if the answer contains neither text nor a call. */
  empty?: EmptyFault | undefined;
  cost: string | null;
  /** Breakdown of the cost, if known, and whether the rates for long prompts applied. */
  costs?: Payload<'model.responded'>['costs'];
  longContext?: boolean;
  /** The answer contains output of the provider's own tools. */
  untrusted?: boolean;
  /** Number of characters that could not be stored. */
  replaced?: number | undefined;
  latencyMs: number;
  /** In a replay: where the answer comes from, or how the request differs from the record. */
  replay?: Pick<Payload<'model.responded'>, 'recorded' | 'differs' | 'calibration'> | undefined;
}

/** A model has answered. */
export function recordAnswer({ turn }: RunState, answer: Answered): NewEvent {
  return {
    type: 'model.responded',
    actor: 'agent',
    turn_id: turn?.id,
    step: answer.step,
    payload: {
      provider: answer.provider,
      model: answer.model,
      stop_reason: answer.stopReason,
      ordinal: answer.ordinal,
      tool_calls: answer.toolCalls,
      intents: answer.intents,
      ...(answer.empty && { empty: true }),
      usage: answer.usage,
      cost_usd: answer.cost,
      ...(answer.costs && { costs: answer.costs }),
      ...(answer.longContext && { long_context: true }),
      ...(answer.untrusted && { untrusted: true as const }),
      ...(answer.replaced !== undefined && { replaced: answer.replaced }),
      ...(answer.containerId !== undefined && { container_id: answer.containerId }),
      latency_ms: answer.latencyMs,
      ...answer.replay,
    },
  };
}

/** The outcome for a file that the provider made in an answer. Follows `recordAnswer`. */
export function recordFile({ turn }: RunState, step: number, fact: FileFact): NewEvent {
  return { ...fact, actor: 'system', turn_id: turn?.id, step };
}

type FileFact = {
  [T in 'file.stored' | 'file.failed']: { type: T; payload: Extract<NewEvent, { type: T }>['payload'] };
}['file.stored' | 'file.failed'];

/** An answer was empty: the model is told, or its retries are used up. Follows `recordAnswer`. */
export function rejectEmptyAnswer(state: RunState, step: number, fault: EmptyFault): NewEvent {
  const payload = { ...fault, attempt: invalidAnswersBefore(state) + 1 };
  return { type: 'intent.rejected', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** The part of a run that events of Drover's own calls need. */
export interface OwnCallPlace {
  turn: { id: string } | null;
  length: number;
}

/** Drover makes a call of its own: it forces a tool, and is no step of the run. */
export function announceOwnCall({ turn, length }: OwnCallPlace, asked: OwnCall & OwnOffer): NewEvent {
  const { provider, model, tool, step, estimatedTokens: estimated_tokens, maxTokens: max_tokens } = asked;
  const payload = { provider, model, length, estimated_tokens, tool_choice: { tool }, max_tokens, tools_count: 1 };
  return { type: 'model.called', actor: 'system', turn_id: turn?.id, step, payload };
}

/** An own call was answered. Its answer is in no message. */
export function recordOwnAnswer({ turn, length }: OwnCallPlace, { tool, ...answer }: OwnCall & OwnAnswer): NewEvent {
  const { provider, model, stopReason: stop_reason, usage, cost: cost_usd, latencyMs: latency_ms, step } = answer;
  const counts = { ordinal: length, tool_calls: 0 };
  const payload = { provider, model, stop_reason, ...counts, usage, cost_usd, latency_ms, tool };
  return {
    type: 'model.responded',
    actor: 'system',
    turn_id: turn?.id,
    step,
    payload: {
      ...payload,
      ...(answer.costs && { costs: answer.costs }),
      ...(answer.longContext && { long_context: true }),
    },
  };
}

interface OwnOffer {
  estimatedTokens: number;
  maxTokens: number;
}

interface OwnCall {
  provider: string;
  model: string;
  tool: string;
  step: number;
}

type OwnAnswer = Pick<Answered, 'stopReason' | 'usage' | 'cost' | 'costs' | 'longContext' | 'latencyMs'>;

/** A model has failed for good: the next one is asked, if there is one. */
export function recordModelFailure(
  { turn }: Pick<OwnCallPlace, 'turn'>,
  step: number,
  payload: Payload<'model.failed'>,
): NewEvent {
  return { type: 'model.failed', actor: 'system', turn_id: turn?.id, step, payload };
}

/** The same model is asked again. */
export function recordModelRetry({ turn }: RunState, step: number, payload: Payload<'model.retried'>): NewEvent {
  return { type: 'model.retried', actor: 'system', turn_id: turn?.id, step, payload };
}

/** No model answers: the run waits for its provider. */
export function deferModelCall(
  { turn }: Pick<OwnCallPlace, 'turn'>,
  step: number,
  payload: Payload<'model.deferred'>,
): NewEvent {
  return { type: 'model.deferred', actor: 'system', turn_id: turn?.id, step, payload };
}

/** The awaited provider is back. */
export function resumeModelCall(
  { turn }: Pick<OwnCallPlace, 'turn'>,
  step: number,
  payload: Payload<'model.resumed'>,
): NewEvent {
  return { type: 'model.resumed', actor: 'system', turn_id: turn?.id, step, payload };
}

/** Another model is asked. */
export function recordFallback({ turn }: RunState, payload: Payload<'model.fell_back'>): NewEvent {
  return { type: 'model.fell_back', actor: 'system', turn_id: turn?.id, payload };
}
