/** When a checkpoint is due, and its place in the next commit. */
import { newId } from '../../../lib/new-id.ts';
import { LIMITS } from '../../../core/limits.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** Saves one within a turn where the agent asks for it at every change, else every 25 steps. */
export function saveCheckpointIfDue(drive: Drive): void {
  const frequency = drive.definition.execution_config?.checkpoint_frequency ?? 'every_turn';
  const steps = drive.log.state.steps - drive.log.stepsAtCheckpoint;
  if (frequency === 'on_change' || steps >= LIMITS.checkpointSteps) saveCheckpoint(drive, 'tool_result');
}

/** Lets the next commit write a checkpoint; answers its id, or undefined if the agent saves none by itself. */
export function saveCheckpoint(drive: Drive, trigger: 'turn_complete' | 'tool_result'): string | undefined {
  if (drive.definition.execution_config?.checkpoint_frequency === 'manual') return undefined;
  const checkpoint_id = newId();
  drive.log.pending.checkpoint = { id: checkpoint_id, trigger };
  appendEvent(drive.log, {
    type: 'checkpoint.saved',
    actor: 'worker',
    turn_id: drive.log.state.turn?.id,
    payload: { checkpoint_id, trigger },
  });
  return checkpoint_id;
}
