/** Suspension in a drive: checked before each decision. */
import type { Decision } from '../../../core/decide.ts';
import { suspendedBy } from '../../governance/governance.ts';
import { reauthorizePending } from './load.ts';
import type { Drive } from './drive-state.ts';

/**
 * Whether a decision begins something, which a suspended run must not. It may wait for calls under way, and make those that
 * the ledger has as begun.
 */
function beginsSomething(drive: Drive, decision: Decision): boolean {
  switch (decision.kind) {
    case 'await_calls':
      return decision.calls.length > 0;
    case 'run_calls':
      return !decision.calls.some(
        ({ id, mode, status }) => mode === 'inline' && status === 'running' && drive.step.ownCalls.get(id)?.isBegun,
      );
    default:
      return ['begin_turn', 'call_model', 'enter_node', 'reflect'].includes(decision.kind);
  }
}

/** Whether a decision must wait until a suspension is lifted. */
export function isHeldUp(drive: Drive, decision: Decision): boolean {
  return beginsSomething(drive, decision) && suspendedBy(drive.governance, drive.run.agent_id) !== undefined;
}

/** After the bus has announced a change, reads the tenant's policies and suspensions again, and gates the pending calls again. */
export async function catchUp(drive: Drive): Promise<void> {
  if (!drive.heard.governance) return;
  drive.heard.governance = false;
  await reauthorizePending(drive);
}
