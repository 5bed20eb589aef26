/** What the events of a plan mean for its row in `plans`. A part of `project.ts`. */
import type { NewEvent } from './events.ts';
import type { ProjectionContext } from './project.ts';

type PlanEvent = Extract<NewEvent, { type: `plan.${string}` }>;

/** The whole row of a plan that is proposed, later what changes in it. */
export function planRow(place: ProjectionContext & { index: number }, event: PlanEvent): Record<string, unknown> {
  const at = place.at(place.index);
  const id = event.payload.plan_id;
  switch (event.type) {
    case 'plan.proposed': {
      const { plan_id: _, ...plan } = event.payload;
      const owner = { tenant_id: place.tenantId, run_id: place.runId, turn_id: event.turn_id, step: event.step };
      return { ...plan, ...owner, id, status: 'proposed', created_at: at };
    }
    case 'plan.approved':
      return { id, status: 'approved', approval_id: event.payload.approval_id, approved_at: at };
    case 'plan.rejected':
      return { id, status: 'rejected', reason: event.payload.reason, completed_at: at };
    case 'plan.started':
      return { id, status: 'executing', started_at: at };
    case 'plan.completed':
      return { id, status: event.payload.status, completed_at: at };
  }
}
