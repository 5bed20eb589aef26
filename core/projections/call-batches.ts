/** Call batches: three or more calls of one answer, decided on as a whole. */
import type { NewEvent } from '../events.ts';
import type { Place, Projection, RowChange } from './projection.ts';

export const callBatches: Projection<'plans'> = {
  table: 'plans',
  key: 'id',
  columns: [
    'id',
    'tenant_id',
    'run_id',
    'turn_id',
    'step',
    'purpose',
    'max_risk_level',
    'auto_executing',
    'status',
    'steps',
    'approval_id',
    'reason',
    'created_at',
    'approved_at',
    'started_at',
    'completed_at',
  ],
  unlogged: [],
  apply(place, event) {
    if (event.type === 'plan.proposed') {
      const { plan_id: id, ...batch } = event.payload;
      const owner = { id, tenant_id: place.tenantId, run_id: place.runId, turn_id: event.turn_id, step: event.step };
      return { key: id, insert: { ...batch, ...owner, status: 'proposed', created_at: place.at } };
    }
    return progressOf(place, event);
  },
};

function progressOf({ at }: Place, event: NewEvent): RowChange | undefined {
  switch (event.type) {
    case 'plan.approved': {
      const { plan_id: key, approval_id } = event.payload;
      return { key, set: { status: 'approved', approval_id, approved_at: at } };
    }
    case 'plan.rejected': {
      const { plan_id: key, reason } = event.payload;
      return { key, set: { status: 'rejected', reason, completed_at: at } };
    }
    case 'plan.refined': {
      const { plan_id: key, feedback: reason } = event.payload;
      return { key, set: { status: 'rejected', reason, completed_at: at } };
    }
    case 'plan.started':
      return { key: event.payload.plan_id, set: { status: 'executing', started_at: at } };
    case 'plan.completed': {
      const { plan_id: key, status } = event.payload;
      return { key, set: { status, completed_at: at } };
    }
    default:
      return undefined;
  }
}
