/** Questions to people and their decisions. */
import type { NewEvent } from '../events.ts';
import type { Columns, Place, Projection, RowChange } from './projection.ts';

export const approvals: Projection<'approvals'> = {
  table: 'approvals',
  key: 'id',
  columns: [
    'id',
    'tenant_id',
    'run_id',
    'turn_id',
    'kind',
    'tool_call_id',
    'plan_id',
    'tool',
    'digest',
    'message',
    'policy',
    'four_eyes',
    'decided_by',
    'status',
    'decision',
    'reason',
    'created_at',
    'decided_at',
  ],
  // Defined by the ledger, by the time of the commit, or only for approvals that belong to no run.
  unlogged: ['arguments', 'original_arguments', 'expires_at', 'workspace_id', 'subject_type', 'subject_id'],
  erased: { arguments: {}, original_arguments: null, message: null, reason: null },
  apply(place, event) {
    if (event.type !== 'approval.requested') return decisionOf(place, event);
    // Arguments of calls in the ledger are read from there.
    const { approval_id: id, four_eyes = false, ...about } = event.payload;
    const owner = { id, tenant_id: place.tenantId, run_id: place.runId, turn_id: event.turn_id };
    return { key: id, insert: { ...about, ...owner, four_eyes, status: 'pending', created_at: place.at } };
  },
};

function decisionOf(place: Place, event: NewEvent): RowChange | undefined {
  // Only the first decision counts.
  const decided = (key: string, set: Columns): RowChange => ({
    key,
    from: 'pending',
    set: { ...set, decided_at: place.at },
  });
  switch (event.type) {
    case 'approval.granted': {
      const { approval_id, digest, policy, edited, reason, decided_by } = event.payload;
      return decided(approval_id, { status: 'approved', digest, policy, edited, reason, decided_by });
    }
    case 'approval.denied': {
      const { approval_id, reason, decided_by } = event.payload;
      return decided(approval_id, { status: 'denied', reason, decided_by });
    }
    case 'approval.expired':
      return decided(event.payload.approval_id, { status: 'expired', reason: event.payload.reason });
    case 'approval.settled': {
      const { approval_id, decision, reason, decided_by } = event.payload;
      return decided(approval_id, { status: 'settled', decision, reason, decided_by });
    }
    default:
      return undefined;
  }
}
