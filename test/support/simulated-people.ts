/** What people do in a simulated run: they approve, deny, let time pass, settle, answer. */
import { fixedId } from '../../core/ids.ts';
import type { NewEvent } from '../../core/events.ts';
import type { CallState } from '../../core/state.ts';
import type { Wait } from '../../core/waits.ts';

export interface People {
  emit: (event: NewEvent) => void;
  pick: (n: number) => number;
  nextId: () => string;
}

const PROBLEM = { code: 'c', message: 'm' };

/** Opens an approval of a call, or asks what became of it. */
export function askPeople({ emit, nextId }: People, call: { id: string }, kind: 'approval' | 'unknown'): void {
  const payload = { approval_id: nextId(), tool_call_id: call.id, kind, tool: 't', digest: 'd', expires_in_seconds: 1 };
  emit({ type: 'approval.requested', actor: 'system', payload });
}

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
function answer(people: People, call: CallState, { type }: Wait): void {
  const about = { tool_call_id: call.id };
  const isLate = people.pick(3) === 2;
  if (isLate) people.emit({ type: 'timer.fired', actor: 'system', payload: { ...about, type } });
  else {
    const forOne = type !== 'tool_results' && people.pick(2) === 1 ? about : {};
    const payload = { signal_id: people.nextId(), type, payload: {}, ...forOne };
    people.emit({ type: 'signal.received', actor: 'user', payload });
  }
  if (isLate && type !== 'timer') {
    people.emit({ type: 'tool.failed', actor: 'system', payload: { ...about, error: PROBLEM, attempts: 1 } });
  } else if (isLate || type === 'tool_results') {
    people.emit({ type: 'tool.succeeded', actor: 'user', payload: { ...about, latency_ms: 1, output_bytes: 1 } });
  }
}

function decideOn({ emit, pick }: People, call: CallState): void {
  const about = { approval_id: call.approvalId ?? '', tool_call_id: call.id };
  const denied: NewEvent = { type: 'tool.denied', actor: 'system', payload: { tool_call_id: call.id, error: PROBLEM } };
  switch (pick(3)) {
    case 1:
      emit({ type: 'approval.denied', actor: 'user', payload: about });
      return emit(denied);
    case 2:
      emit({ type: 'approval.expired', actor: 'system', payload: about });
      return emit(denied);
    default:
      return emit({ type: 'approval.granted', actor: 'user', payload: { ...about, digest: 'd', edited: false } });
  }
}

function settle({ emit, pick }: People, call: CallState): void {
  const about = { approval_id: call.approvalId ?? '', tool_call_id: call.id };
  const decision = (['give_up', 'happened', 'rerun'] as const)[pick(3)] ?? 'give_up';
  emit({ type: 'approval.settled', actor: 'user', payload: { ...about, decision } });
  if (decision === 'rerun') return;
  const outcome = decision === 'happened' ? ('succeeded' as const) : ('unknown' as const);
  emit({ type: 'tool.resolved', actor: 'user', payload: { tool_call_id: call.id, outcome } });
}

/** Ids that follow from how many there have been. */
export function idsFrom(count: () => number): () => string {
  return () => fixedId(`people ${count()}`);
}
