/** Events of questions to people: asked, decided, or withdrawn because no decision is needed any more. */
import type { Actor, NewEvent } from '../events.ts';
import type { CallState, RunState } from '../state.ts';

type Payload = Extract<NewEvent, { type: 'approval.requested' }>['payload'];

export interface Asked {
  step?: number | undefined;
  about: Payload;
}

/** Opens an approval. */
export function askApproval(turnId: string | undefined, { step, about }: Asked): NewEvent {
  return { type: 'approval.requested', actor: 'system', turn_id: turnId, step, payload: about };
}

/** A question about a call of unknown outcome. */
interface Question {
  approvalId: string;
  call: Pick<CallState, 'id' | 'name'>;
  digest: string;
  seconds: number;
}

const WHAT_BECAME = 'Nobody knows whether this call has taken effect: say what became of it.';

/** The decision `ask_about`: people say what happened to calls of unknown outcome. */
export function askAboutCalls(state: RunState, questions: readonly Question[]): NewEvent[] {
  return questions.map(({ approvalId, call, digest, seconds }) => {
    const about = {
      approval_id: approvalId,
      tool_call_id: call.id,
      kind: 'unknown' as const,
      tool: call.name,
      message: WHAT_BECAME,
      digest,
      expires_in_seconds: seconds,
    };
    return askApproval(state.turn?.id, { step: state.steps, about });
  });
}

/** When a turn fails, its open questions are closed: calls that wait for approval are denied. */
export function closeQuestions({ turn, steps: step, plan: batch, calls }: RunState): NewEvent[] {
  const by = { actor: 'system' as const, turn_id: turn?.id, step };
  const events: NewEvent[] = [];
  const closed = new Set<string>();
  for (const call of calls) {
    const isOpen = call.status === 'awaiting_approval' || (call.status === 'unknown' && call.asked === 'yes');
    if (!isOpen || !call.approvalId) continue;
    const isOfCallBatch = batch?.calls.includes(call.id) && call.status === 'awaiting_approval';
    const about = isOfCallBatch ? { plan_id: batch?.id } : { tool_call_id: call.id };
    const payload = { approval_id: call.approvalId, ...about };
    if (!closed.has(call.approvalId)) events.push({ ...by, type: 'approval.expired', payload });
    closed.add(call.approvalId);
    if (call.status === 'unknown') continue;
    const error = { code: 'denied', message: 'The turn ended before anybody approved the call.' };
    events.push({ ...by, type: 'tool.denied', payload: { tool_call_id: call.id, error } });
  }
  return events;
}

/** An approval being decided, with the calls that wait for it: one, all steps of a call batch, or none. */
export interface DecidedApproval {
  approvalId: string;
  turnId: string | undefined;
  callId?: string | undefined;
  callBatchId?: string | undefined;
  calls: readonly string[];
}

type Given = Omit<
  Extract<NewEvent, { type: 'approval.granted' }>['payload'],
  'approval_id' | 'tool_call_id' | 'plan_id'
>;

/** Approved: the calls may be made. */
export function grantApproval(approval: DecidedApproval, given: Given): NewEvent[] {
  const { approvalId: approval_id, callBatchId: plan_id } = approval;
  const granted: NewEvent = {
    ...byActor(approval, 'user'),
    type: 'approval.granted',
    payload: { ...subjectOf(approval), ...given },
  };
  if (!plan_id) return [granted];
  return [
    granted,
    { ...byActor(approval, 'user'), type: 'plan.approved', payload: { plan_id, approval_id } },
    { ...byActor(approval, 'system'), type: 'plan.started', payload: { plan_id } },
  ];
}

/** How an approval can end without the calls: denied, expired, or lapsed early for a reason. */
export type Refusal =
  | { kind: 'denied'; reason?: string | undefined; decidedBy: string | undefined; message: string; refine?: boolean }
  | { kind: 'expired'; reason?: string | undefined; message: string };

/** Refused: the calls are not made, and the model reads why. */
export function refuseApproval(approval: DecidedApproval, refusal: Refusal): NewEvent[] {
  const error = { code: 'denied', message: refusal.message };
  const system = byActor(approval, 'system');
  const denied = approval.calls.map((id): NewEvent => ({
    ...system,
    type: 'tool.denied',
    payload: { tool_call_id: id, error },
  }));
  const { callBatchId: plan_id } = approval;
  return [ended(approval, refusal), ...denied, ...(plan_id ? [endOfCallBatch(approval, plan_id, refusal)] : [])];
}

function endOfCallBatch(approval: DecidedApproval, plan_id: string, refusal: Refusal): NewEvent {
  if (refusal.kind === 'denied' && refusal.refine) {
    const payload = { plan_id, feedback: refusal.reason ?? '' };
    return { ...byActor(approval, 'user'), type: 'plan.refined', payload };
  }
  const payload = { plan_id, reason: refusal.reason ?? refusal.message };
  return { ...byActor(approval, 'system'), type: 'plan.rejected', payload };
}

function ended(approval: DecidedApproval, refusal: Refusal): NewEvent {
  const { reason } = refusal;
  const payload = { ...subjectOf(approval), ...(reason && { reason }) };
  if (refusal.kind === 'expired') return { ...byActor(approval, 'system'), type: 'approval.expired', payload };
  return {
    ...byActor(approval, 'user'),
    type: 'approval.denied',
    payload: { ...payload, decided_by: refusal.decidedBy },
  };
}

interface SettledBy {
  decision: 'happened' | 'rerun' | 'give_up';
  reason?: string | undefined;
  decidedBy: string | undefined;
}

/** A person has said what happened to calls of unknown outcome. */
export function settleApproval(approval: DecidedApproval, { decision, reason, decidedBy }: SettledBy): NewEvent[] {
  const payload = { ...subjectOf(approval), decision, ...(reason && { reason }), decided_by: decidedBy };
  const settled: NewEvent = { ...byActor(approval, 'user'), type: 'approval.settled', payload };
  if (decision === 'rerun') return [settled];
  return [settled, ...resolve(approval, decision === 'happened' ? 'succeeded' : 'unknown')];
}

/** The attempt has ended after all: nobody needs to say any more what happened. */
export function withdrawQuestion(
  approval: DecidedApproval,
  { decision, reason }: { decision: 'happened' | 'rerun'; reason: string },
): NewEvent {
  const payload = { ...subjectOf(approval), decision, reason };
  return { ...byActor(approval, 'worker'), type: 'approval.settled', payload };
}

/** Nobody said in time what happened: the outcome stays unknown. */
export function expireQuestion(approval: DecidedApproval): NewEvent[] {
  const expired: NewEvent = { ...byActor(approval, 'system'), type: 'approval.expired', payload: subjectOf(approval) };
  return [expired, ...resolve(approval, 'unknown')];
}

function resolve(approval: DecidedApproval, outcome: 'succeeded' | 'unknown'): NewEvent[] {
  return approval.calls.map((id) => ({
    ...byActor(approval, 'user'),
    type: 'tool.resolved',
    payload: { tool_call_id: id, outcome },
  }));
}

function byActor({ turnId }: DecidedApproval, actor: Actor) {
  return { actor, turn_id: turnId };
}

function subjectOf({ approvalId, callId, callBatchId }: DecidedApproval) {
  return {
    approval_id: approvalId,
    ...(callId && { tool_call_id: callId }),
    ...(callBatchId && { plan_id: callBatchId }),
  };
}
