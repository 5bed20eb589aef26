/** What a driver does not do: go on with a full log, or with what other drivers have died of. */
import type { Decision } from '../../../core/decide.ts';
import { LIMITS } from '../../../core/limits.ts';
import { isPerilous, LEASES_LOST } from '../../../core/lost-leases.ts';
import type { Drive } from './drive-state.ts';

/**
 * Fails a run at its next step if its log is full, or if drivers have been lost here again and again: it may be the run that
 * takes them with it, and each of them asks and pays the model anew.
 */
export function withinLimits(drive: Drive, decision: Decision): Decision {
  const isStep = decision.kind === 'call_model' || decision.kind === 'enter_node';
  if (isStep && drive.log.state.seq >= LIMITS.eventsPerRun) {
    const message = `The run's log has reached ${LIMITS.eventsPerRun} events.`;
    return { kind: 'fail_turn', error: { code: 'too_many_events', message } };
  }
  const isEnd = isStep || decision.kind === 'complete_node';
  return isEnd && isLostHere(drive) ? { kind: 'fail_turn', error: LEASES_LOST } : decision;
}

/** Whether drivers have been lost again and again at this place, and this one has not brought the run further. */
export function isLostHere({ log, run }: Pick<Drive, 'log' | 'run'>): boolean {
  return log.base.seq === run.last_seq && isPerilous(run);
}
