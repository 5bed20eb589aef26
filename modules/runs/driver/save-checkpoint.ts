/** When a checkpoint is due, and its place in the next commit. */
import { newId } from '../../../lib/new-id.ts';
import { LIMITS } from '../../../core/limits.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { DriveSession } from './session.ts';

/** Saves one within a turn where the agent asks for it at every change, else every 25 steps. */
export function saveCheckpointIfDue(session: DriveSession): void {
  const frequency = session.definition.execution_config?.checkpoint_frequency ?? 'every_turn';
  const steps = session.log.state.steps - session.log.stepsAtCheckpoint;
  if (frequency === 'on_change' || steps >= LIMITS.checkpointSteps) saveCheckpoint(session, 'tool_result');
}

/** Lets the next commit write a checkpoint; answers its id, or undefined if the agent saves none by itself. */
export function saveCheckpoint(session: DriveSession, trigger: 'turn_complete' | 'tool_result'): string | undefined {
  if (session.definition.execution_config?.checkpoint_frequency === 'manual') return undefined;
  const checkpoint_id = newId();
  session.log.pending.checkpoint = { id: checkpoint_id, trigger };
  appendEvent(session.log, {
    type: 'checkpoint.saved',
    actor: 'worker',
    turn_id: session.log.state.turn?.id,
    payload: { checkpoint_id, trigger },
  });
  return checkpoint_id;
}
