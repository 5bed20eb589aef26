/** Decides when a checkpoint is due, and adds it to the next commit. */
import { newId } from '../../../lib/new-id.ts';
import { LIMITS } from '../../../core/limits.ts';
import { appendEvent } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** Saves a checkpoint within a turn: at every change if the agent asks for that, otherwise every 25 steps. */
export function saveCheckpointIfDue(drive: Drive): void {
  const frequency = drive.definition.execution_config?.checkpoint_frequency ?? 'every_turn';
  const steps = drive.log.state.steps - drive.log.stepsAtCheckpoint;
  if (frequency === 'on_change' || steps >= LIMITS.checkpointSteps) saveCheckpoint(drive, 'tool_result');
}

/** Adds a checkpoint to the next commit; returns its id, or undefined if the agent's checkpoints are manual. */
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
