/** How events of approvals change the calls they are about. */
import type { CallState } from './call-state.ts';
import type { RunEvent } from './events.ts';

interface WithCalls {
  calls: CallState[];
}

/** The calls after an event of an approval; undefined after any other. */
export function approvalChange(state: WithCalls, event: RunEvent): WithCalls | undefined {
  switch (event.type) {
    case 'approval.requested':
      return askForApproval(state, event);
    case 'approval.granted':
      return ofApproval(state, event, () => ({ status: 'pending' }));
    case 'approval.denied':
    case 'approval.expired':
      return ofApproval(state, event, refused);
    case 'approval.settled':
      return ofApproval(state, event, () => SETTLED_AS[event.payload.decision]);
    default:
      return undefined;
  }
}

/** A call whose job was sent before it needed approval again must be sent anew once it is approved. */
function askForApproval(state: WithCalls, event: Extract<RunEvent, { type: 'approval.requested' }>): WithCalls {
  const { approval_id: approvalId, tool_call_id: id, kind, calls = id ? [id] : [] } = event.payload;
  const asked: Partial<CallState> =
    kind === 'unknown' ? { approvalId, asked: 'yes' } : { approvalId, status: 'awaiting_approval', sent: false };
  return { calls: state.calls.map((call) => (calls.includes(call.id) ? { ...call, ...asked } : call)) };
}

/** Changes the calls that an approval is about. */
function ofApproval(
  state: WithCalls,
  { payload }: { payload: { approval_id: string } },
  change: (call: CallState) => Partial<CallState>,
): WithCalls {
  const isMeant = (call: CallState) => call.approvalId === payload.approval_id;
  return { calls: state.calls.map((call) => (isMeant(call) ? { ...call, ...change(call) } : call)) };
}

/** State of a call of unknown outcome after a person has said what happened (docs/approvals.md). */
const SETTLED_AS: Record<'happened' | 'rerun' | 'give_up', Partial<CallState>> = {
  happened: { status: 'succeeded', asked: 'settled' },
  rerun: { status: 'pending', sent: false, asked: 'no' },
  give_up: { asked: 'settled' },
};

/**
 * The approval was denied or expired: a call that was never made becomes denied; an unknown outcome stays unknown, and one that
 * became known meanwhile stays known.
 */
function refused(call: CallState): Partial<CallState> {
  if (call.status === 'unknown') return { asked: 'settled' };
  return call.asked === 'no' ? { status: 'denied' } : {};
}
