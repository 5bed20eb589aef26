/** What the view of a session keeps of a turn, by a fold over its events: frames follow from it besides their event. */
import { textOf } from '../../core/content.ts';
import type { RiskLevel } from '../../core/tool.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';

/** As this build knows it. */
export type Payload = Record<string, unknown>;

interface ViewedCall {
  index: number;
  callBatchId?: string;
  tool: string;
  arguments: unknown;
  startedAt?: Date;
  /** It has its outcome. */
  isOver?: boolean;
}

/** What frames of a turn follow from besides their event. */
export interface TurnView {
  number: number;
  startedAt: Date | null;
  hasPlanned: boolean;
  /** Where a call stands in its batch, or else in the answer that asked for it, and what for. */
  calls: Map<string, ViewedCall>;
  /** Calls without a result of their tool. */
  failed: Set<string>;
  batchHasFailed: boolean;
  /** The call batch whose approval has lapsed or expired. */
  lapsedBatchId?: unknown;
  /** The model's last answer. */
  answer: string;
  /** That of a graph's node, until it is known whether the turn ends with it. */
  untold: string;
  /** A node of the graph has ended, and another follows; or the answer lacked something, and another one does. */
  isBetween: boolean;
  /** A model looks at the answer: it is not known yet whether the turn ends with it. */
  isReflecting: boolean;
}

/** The view before the first event of a run. */
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

/** Keeps what later events of the turn need. */
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
      // What a person has refused as a whole, or wanted otherwise, has not failed.
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

/** The steps of a call batch; of one that a person is asked about those that are decided on: what was refused at once is none. */
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
