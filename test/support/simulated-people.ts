/** What people do in a simulated run: they approve, deny, let time pass, settle, answer. */
import {
  expireQuestion,
  grantApproval,
  refuseApproval,
  settleApproval,
  type DecidedApproval,
} from '../../core/decision-events/approvals.ts';
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { fireTimer } from '../../core/decision-events/waits.ts';
import { fixedId } from '../../core/ids.ts';
import type { NewEvent } from '../../core/events.ts';
import type { CallState, RunState } from '../../core/state.ts';
import type { Wait } from '../../core/waits.ts';

export interface People {
  emit: (...events: NewEvent[]) => void;
  state: () => RunState;
  pick: (n: number) => number;
  nextId: () => string;
}

const PROBLEM = { code: 'c', message: 'm' };

/** Somebody does something about one of the calls; the plainest (0) lets the run go on. */
export function actOn(people: People, call: CallState): void {
  if (call.wait) {
    answer(people, call, call.wait);
  } else if (call.status === 'awaiting_approval') {
    decideOn(people, call);
  } else {
    settle(people, call);
  }
}

/** A signal answers, for this call alone or by its type, or time runs out. The client's results settle their call at once. */
function answer({ emit, state, pick, nextId }: People, call: CallState, { type }: Wait): void {
  const isElsewhere = call.mode === 'queued';
  const about = { tool_call_id: call.id };
  const how = { callId: call.id, attempt: 1, latencyMs: 1 };
  const succeeded = settledEvent({ ...how, settlement: { status: 'succeeded', output: 1 } });
  if (pick(3) === 2) {
    const failed = settledEvent({ ...how, settlement: { status: 'failed', ...PROBLEM } });
    return emit(...fireTimer(state().turn?.id, { ...about, type }, type === 'timer' ? succeeded : failed));
  }
  if (type === 'child') return emit({ ...succeeded, actor: 'system' });
  const forOne = isElsewhere || (type !== 'tool_results' && pick(2) === 1) ? about : {};
  emit({ type: 'signal.received', actor: 'user', payload: { signal_id: nextId(), type, payload: {}, ...forOne } });
  if (type === 'tool_results') emit({ ...succeeded, actor: 'user' });
}

function decideOn({ emit, state, pick }: People, call: CallState): void {
  const approval = approvalOf(state(), call);
  switch (pick(3)) {
    case 1:
      return emit(...refuseApproval(approval, { kind: 'denied', decidedBy: undefined, message: 'm' }));
    case 2:
      return emit(...refuseApproval(approval, { kind: 'expired', message: 'm' }));
    default:
      return emit(...grantApproval(approval, { digest: 'd', edited: false }));
  }
}

function settle({ emit, state, pick }: People, call: CallState): void {
  const approval = approvalOf(state(), call);
  const decision = (['give_up', 'happened', 'rerun', 'expired'] as const)[pick(4)] ?? 'give_up';
  if (decision === 'expired') return emit(...expireQuestion(approval));
  return emit(...settleApproval(approval, { decision, decidedBy: undefined }));
}

function approvalOf({ turn }: RunState, { id, approvalId }: CallState): DecidedApproval {
  return { approvalId: approvalId ?? '', turnId: turn?.id, callId: id, calls: [id] };
}

/** Ids that follow from how many there have been. */
export function idsFrom(count: () => number): () => string {
  return () => fixedId(`people ${count()}`);
}
