/** Suspension as a driver meets it: before each call it knows whether its tenant or agent is suspended. */
import type { Decision } from '../../../core/decide.ts';
import { suspendedBy } from '../../governance/governance.ts';
import { reauthorizePending } from './load.ts';
import type { DriveSession } from './session.ts';

/**
 * Whether a decision begins something, which a suspended run does not do. It may wait for calls under way, and makes those
 * that the ledger has as begun.
 */
function beginsSomething(session: DriveSession, decision: Decision): boolean {
  switch (decision.kind) {
    case 'await_calls':
      return decision.calls.length > 0;
    case 'run_calls':
      return !decision.calls.some(
        ({ id, mode, status }) => mode === 'inline' && status === 'running' && session.step.ownCalls.get(id)?.isBegun,
      );
    default:
      return ['begin_turn', 'call_model', 'enter_node', 'reflect'].includes(decision.kind);
  }
}

/** Whether the run must stop before its next decision. */
export async function mustPause(session: DriveSession, decision: Decision): Promise<boolean> {
  await catchUp(session);
  return beginsSomething(session, decision) && suspendedBy(session.governance, session.run.agent_id) !== undefined;
}

/** Reads the tenant's policies and suspensions again after the bus has announced a change. */
async function catchUp(session: DriveSession): Promise<void> {
  if (!session.heard.governance) return;
  session.heard.governance = false;
  await reauthorizePending(session);
}
