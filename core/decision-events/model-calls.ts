/** Events of a model call: that it is made, what it answered, and what went wrong. */
import type { Decision } from '../decide.ts';
import type { NewEvent } from '../events.ts';
import { invalidAnswersBefore, type EmptyFault } from '../intents.ts';
import type { ModelResponse } from '../model.ts';
import type { RunState } from '../state.ts';

type Payload<T extends NewEvent['type']> = Extract<NewEvent, { type: T }>['payload'];
type CallModel = Extract<Decision, { kind: 'call_model' }>;

/** The decision `call_model`, where it is the last of its turn. */
export function reachStepLimit({ turn }: RunState, call: Pick<CallModel, 'last'>, limit: number): NewEvent[] {
  if (!call.last || turn?.maxStepsReached) return [];
  return [{ type: 'run.max_steps_reached', actor: 'system', turn_id: turn?.id, payload: { limit } }];
}

/** Who is asked, and with how long a conversation. */
type Announced = Omit<Payload<'model.called'>, 'tool_choice'>;

/** The decision `call_model`, in the commit before the call. */
export function announceModelCall({ turn }: RunState, call: CallModel, asked: Announced): NewEvent {
  const payload = { ...asked, tool_choice: call.toolChoice };
  return { type: 'model.called', actor: 'agent', turn_id: turn?.id, step: call.step, payload };
}

/** The conversation that the next model call is sent begins elsewhere than that of the last one. */
export function recordContextCut({ turn }: RunState, cut: Payload<'context.transformed'>): NewEvent {
  return { type: 'context.transformed', actor: 'system', turn_id: turn?.id, payload: cut };
}

/** The beginning of the conversation is sent as something shorter from here on. */
export function recordCompaction({ turn }: RunState, step: number, payload: Payload<'context.compacted'>): NewEvent {
  return { type: 'context.compacted', actor: 'system', turn_id: turn?.id, step, payload };
}

/** An answer, as it is kept. */
interface Answered extends Omit<ModelResponse, 'content'> {
  step: number;
  ordinal: number;
  toolCalls: number;
  intents: NonNullable<Payload<'model.responded'>['intents']>;
  /** It holds neither text nor a call. */
  empty?: EmptyFault | undefined;
  cost: string | null;
  /** What the cost is made of, where that is known, and whether the rates of long prompts held. */
  costs?: Payload<'model.responded'>['costs'];
  longContext?: boolean;
  /** It holds what tools of the provider have answered. */
  untrusted?: boolean;
  /** Characters of what it has said that could not be kept. */
  replaced?: number | undefined;
  latencyMs: number;
  /** In a replay: where the answer comes from, or what made the request another one. */
  replay?: Pick<Payload<'model.responded'>, 'recorded' | 'differs'> | undefined;
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

/** What became of a file that the provider has made in an answer. Follows `recordAnswer`. */
export function recordFile({ turn }: RunState, step: number, fact: FileFact): NewEvent {
  return { ...fact, actor: 'system', turn_id: turn?.id, step };
}

type FileFact = {
  [T in 'file.stored' | 'file.failed']: { type: T; payload: Extract<NewEvent, { type: T }>['payload'] };
}['file.stored' | 'file.failed'];

/** An answer held nothing: the model is told, or has had its chances. Follows `recordAnswer`. */
export function rejectEmptyAnswer(state: RunState, step: number, fault: EmptyFault): NewEvent {
  const payload = { ...fault, attempt: invalidAnswersBefore(state) + 1 };
  return { type: 'intent.rejected', actor: 'system', turn_id: state.turn?.id, step, payload };
}

/** What a call of Drover's own is told of the run that it is made for. */
export interface OwnCallPlace {
  turn: { id: string } | null;
  length: number;
}

/** Drover asks for itself: a tool is forced, and the call is no step of the run. */
export function announceOwnCall({ turn, length }: OwnCallPlace, asked: OwnCall & OwnOffer): NewEvent {
  const { provider, model, tool, step, estimatedTokens: estimated_tokens, maxTokens: max_tokens } = asked;
  const payload = { provider, model, length, estimated_tokens, tool_choice: { tool }, max_tokens, tools_count: 1 };
  return { type: 'model.called', actor: 'system', turn_id: turn?.id, step, payload };
}

/** Such a call has its answer, which is in no message. */
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

/** A model has failed for good: the next one is asked, or none is left. */
export function recordModelFailure(
  { turn }: Pick<OwnCallPlace, 'turn'>,
  step: number,
  payload: Payload<'model.failed'>,
): NewEvent {
  return { type: 'model.failed', actor: 'system', turn_id: turn?.id, step, payload };
}

/** A model is asked again. */
export function recordModelRetry({ turn }: RunState, step: number, payload: Payload<'model.retried'>): NewEvent {
  return { type: 'model.retried', actor: 'system', turn_id: turn?.id, step, payload };
}

/** No model answers: the run waits for its provider. */
export function deferModelCall({ turn }: RunState, step: number, payload: Payload<'model.deferred'>): NewEvent {
  return { type: 'model.deferred', actor: 'system', turn_id: turn?.id, step, payload };
}

/** The provider that the run waited for is back. */
export function resumeModelCall({ turn }: RunState, step: number, payload: Payload<'model.resumed'>): NewEvent {
  return { type: 'model.resumed', actor: 'system', turn_id: turn?.id, step, payload };
}

/** Another model is asked. */
export function recordFallback({ turn }: RunState, payload: Payload<'model.fell_back'>): NewEvent {
  return { type: 'model.fell_back', actor: 'system', turn_id: turn?.id, payload };
}
