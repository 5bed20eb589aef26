/** Suspension as a driver meets it: before each call it knows whether its tenant or agent is suspended. */
import type { Decision } from '../../../core/decide.ts';
import { suspendedBy } from '../../governance/governance.ts';
import { releaseReservation } from '../../budgets/hold-to-budget.ts';
import { reauthorizePending } from './load.ts';
import type { DriveSession } from './session.ts';

/** What a suspended run does not do. Waiting for calls under way it may, and those that the ledger has as begun are made. */
function beginsSomething(session: DriveSession, decision: Decision): boolean {
  switch (decision.kind) {
    case 'await_calls':
      return decision.calls.length > 0;
    case 'run_calls':
      return !decision.calls.some(
        ({ id, mode, status }) => mode === 'inline' && status === 'running' && session.step.ownCalls.get(id)?.isBegun,
      );
    default:
      return decision.kind === 'begin_turn' || decision.kind === 'call_model';
  }
}

/** Whether the run must stop where it stands, before what it would do next. What was set aside for a model call is given back. */
export async function mustPause(session: DriveSession, decision: Decision): Promise<boolean> {
  await catchUp(session);
  if (!beginsSomething(session, decision) || suspendedBy(session.governance, session.run.agent_id) === undefined)
    return false;
  releaseReservation(session, 'released');
  return true;
}

/** Somebody has said that the tenant's governance has moved: what it is now counts from here on. */
async function catchUp(session: DriveSession): Promise<void> {
  if (!session.heard.governance) return;
  session.heard.governance = false;
  await reauthorizePending(session);
}
