/** A session's view of a turn, folded from its events: the context from which frames are made. */
import { textOf } from '../../core/content.ts';
import type { RiskLevel } from '../../core/tool.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

/** In this build's schema. */
export type Payload = Record<string, unknown>;

interface ViewedCall {
  index: number;
  callBatchId?: string;
  tool: string;
  arguments: unknown;
  startedAt?: Date;
  /** Whether it has an outcome. */
  isOver?: boolean;
}

/** What frames depend on besides their event. */
export interface TurnView {
  number: number;
  startedAt: Date | null;
  hasPlanned: boolean;
  /** Calls by id, with their place in the batch, or else in the answer, and their arguments. */
  calls: Map<string, ViewedCall>;
  /** Calls that failed or were denied. */
  failed: Set<string>;
  batchHasFailed: boolean;
  /** The call batch whose approval has expired. */
  lapsedBatchId?: unknown;
  /** The model's last answer. */
  answer: string;
  /** A graph node's answer, until it is known whether it ends the turn. */
  untold: string;
  /** A node has ended and another follows, or the answer was incomplete and another follows. */
  isBetween: boolean;
  /** A model checks the answer, which may not end the turn. */
  isReflecting: boolean;
}

/** The view before a run's first event. */
export function beforeTurns(): TurnView {
  return {
    number: 0,
    startedAt: null,
    hasPlanned: false,
    calls: new Map(),
    failed: new Set(),
    batchHasFailed: false,
    answer: '',
    untold: '',
    isBetween: false,
    isReflecting: false,
  };
}

/** The view at the start of a turn. */
export function startTurn(event: LoggedEvent, payload: Payload): TurnView {
  return { ...beforeTurns(), number: Number(payload['number']), startedAt: event.occurred_at };
}

/** Notes what later events of the turn need. */
export function note(turn: TurnView, event: LoggedEvent, payload: Payload): void {
  const id = String(payload['tool_call_id']);
  switch (event.type) {
    case 'tool.requested':
      turn.calls.set(id, {
        index: Number(payload['place']),
        tool: String(payload['name']),
        arguments: event.call?.arguments ?? {},
      });
      return;
    case 'tool.started': {
      const call = turn.calls.get(id);
      if (call) turn.calls.set(id, { ...call, startedAt: event.occurred_at });
      return;
    }
    case 'plan.proposed':
      batchCalls(turn, payload);
      return;
    case 'plan.completed':
      turn.batchHasFailed ||= payload['status'] === 'completed_with_errors';
      return;
    case 'approval.expired':
      turn.lapsedBatchId = payload['plan_id'];
      return;
    case 'plan.rejected':
    case 'plan.refined':
      // A batch that a person has refused or changed has not failed.
      if (turn.lapsedBatchId !== payload['plan_id']) forgive(turn, payload['plan_id']);
      return;
    case 'tool.denied':
    case 'tool.failed':
    case 'tool.unknown':
    case 'tool.succeeded':
      endCall(turn, id, event.type !== 'tool.succeeded');
      return;
    case 'tool.resolved':
      if (payload['outcome'] === 'succeeded') turn.failed.delete(id);
      return;
    case 'model.called':
      turn.isReflecting = isVerdict(payload);
      return;
    case 'reflection.completed':
      turn.isBetween = payload['last'] !== true;
      return;
    case 'model.responded':
      if (payload['tool'] !== undefined) return;
      turn.isBetween = false;
      turn.answer = textOf(event.content ?? []);
      turn.untold = payload['tool_calls'] === 0 ? turn.answer : '';
      return;
    case 'node.completed':
    case 'run.max_steps_reached':
      turn.isBetween = event.type === 'node.completed' && payload['ends'] !== true;
      if (event.content) turn.answer = textOf(event.content);
      return;
    default:
  }
}

function batchCalls(turn: TurnView, payload: Payload): void {
  shownSteps(turn, payload).forEach(({ tool_call_id }, index) => {
    const call = turn.calls.get(tool_call_id);
    if (call) turn.calls.set(tool_call_id, { ...call, index, callBatchId: String(payload['plan_id']) });
  });
}

function forgive(turn: TurnView, batchId: unknown): void {
  for (const [call, { callBatchId }] of turn.calls) if (callBatchId === batchId) turn.failed.delete(call);
}

function endCall(turn: TurnView, id: string, hasFailed: boolean): void {
  const call = turn.calls.get(id);
  if (hasFailed) turn.failed.add(id);
  if (call) call.isOver = true;
}

/** The steps of a call batch; if a person is asked, only those to decide on, without calls that were denied at once. */
export function shownSteps(
  { calls }: TurnView,
  payload: Payload,
): { tool_call_id: string; tool: string; risk_level: RiskLevel }[] {
  const steps: ReturnType<typeof shownSteps> = Array.isArray(payload['steps']) ? payload['steps'] : [];
  return payload['auto_executing'] === true ? steps : steps.filter((step) => !calls.get(step.tool_call_id)?.isOver);
}

function isVerdict(payload: Payload): boolean {
  const choice = payload['tool_choice'];
  return typeof choice === 'object' && choice !== null && 'tool' in choice && choice.tool === 'submit_verdict';
}
