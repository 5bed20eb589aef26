/** Handoffs of tasks: the end of a child in one, and how a target takes over. */
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { changeTask, handOverTask, returnTask } from '../../../db/tasks.ts';
import { listWorkers } from '../../../db/workers.ts';
import {
  changeHandoff,
  isHandedUntrusted,
  lastHandoffs,
  lockHandoffTo,
  noteReturned,
  type HandoffRow,
} from '../../../db/handoffs.ts';
import { briefOf, rejectionNote } from '../handoffs/brief.ts';
import { takePlace, type WorkerChoice } from './choose-worker.ts';
import { become, tell, type WorkflowLook } from './workflow-look.ts';

/**
 * Settles the handoff of a child that ended. Returns true if the task goes on: the child had handed over, or has
 * rejected what it was given. Unless rejected, the handoff it worked on ends with it.
 */
export async function settleHandoff(look: WorkflowLook, task: ScheduledTask, isDone: boolean): Promise<boolean> {
  const { tx } = look;
  if (!task.run_id) return false;
  const to = task.handoff_count > 0 ? await lockHandoffTo(tx, task.run_id) : undefined;
  if (task.handed_on && isDone) {
    await endHandoff(look, { handoff: to, task }, 'completed');
    await handOverTask(tx, task.id);
    become(look, task.id, { status: 'awaiting_handoff', handoff_count: task.handoff_count + 1, run: null });
    return true;
  }
  if (task.handed_on) await changeHandoff(tx, task.handed_on, { to: 'cancelled' });
  if (to?.status === 'rejected' && isDone) {
    await giveBack(look, task, to);
    return true;
  }
  await endHandoff(look, { handoff: to, task }, isDone ? 'completed' : 'failed');
  return false;
}

/** Ends the handoff that a child has worked on, if it did not reject it. */
async function endHandoff(
  look: WorkflowLook,
  { handoff, task }: { handoff: HandoffRow | undefined; task: ScheduledTask },
  to: 'completed' | 'failed',
): Promise<void> {
  if (!handoff || !(await changeHandoff(look.tx, handoff.id, { to })) || to === 'failed') return;
  const payload = { handoff_id: handoff.id, task_id: task.id, run_id: task.run_id ?? '' };
  tell(look, { type: 'handoff.completed', payload });
}

/** The agent a task is handed to, if it takes it now. */
export async function targetOf(look: WorkflowLook, task: ScheduledTask): Promise<WorkerChoice> {
  const handoff = await handoffOf(look, task);
  if (!handoff) return 'none';
  const ids = [handoff.target_agent_id];
  const found = await listWorkers(look.tx, { workspaceId: look.workflow.workspace_id, skills: [], ids });
  if (found.length === 0) return 'none';
  const agentId = handoff.target_agent_id;
  return (await takePlace(look, found, agentId)) ?? { agentId, reason: 'handoff' };
}

/** Notes that the target works on it in this run. */
export async function acceptHandoff(look: WorkflowLook, task: ScheduledTask, runId: string): Promise<void> {
  const handoff = await handoffOf(look, task);
  if (!handoff) return;
  await changeHandoff(look.tx, handoff.id, { to: 'accepted', run_id: runId });
  const payload = { handoff_id: handoff.id, task_id: task.id, run_id: runId, agent_id: handoff.target_agent_id };
  tell(look, { type: 'handoff.accepted', payload });
}

/** Sends the work back if the target takes no run. */
export async function refuseHandoff(
  look: WorkflowLook,
  task: ScheduledTask,
  error: { code: string; message: string },
): Promise<void> {
  const handoff = await handoffOf(look, task);
  if (handoff) {
    await changeHandoff(look.tx, handoff.id, { to: 'rejected', rejection: error, isReturning: true });
    tell(look, { type: 'handoff.rejected', payload: { handoff_id: handoff.id, task_id: task.id, error } });
    return giveBack(look, task, handoff);
  }
  await changeTask(look.tx, task.id, { to: 'failed', error, tokens: null, approval_id: null });
  become(look, task.id, { status: 'failed', error });
}

/** Prefers the source for the next attempt, which is told why. */
async function giveBack(look: WorkflowLook, task: ScheduledTask, handoff: HandoffRow): Promise<void> {
  const agent_id = handoff.source_agent_id;
  await returnTask(look.tx, task.id, agent_id);
  const handoff_count = task.handoff_count + 1;
  become(look, task.id, { status: 'pending', agent_id, handoff_count, run: null });
}

/** What a worker reads of its task's last handoff; empty if there was none. */
export async function handedOver(look: WorkflowLook, task: ScheduledTask): Promise<string[]> {
  if (task.handoff_count === 0) return [];
  const last = (await lastHandoffs(look.tx, [task.id])).get(task.id);
  if (!last) return [];
  const brief = await briefOf(look.tx, last);
  return last.status === 'rejected' ? [brief, await rejectionNote(look.tx, last)] : [brief];
}

/** Whether the agents that handed it over or gave it back had read untrusted content. */
export async function isHandedByStrangers({ tx }: WorkflowLook, task: ScheduledTask): Promise<boolean> {
  if (task.handoff_count === 0) return false;
  const last = (await lastHandoffs(tx, [task.id])).get(task.id);
  return last ? isHandedUntrusted(tx, last) : false;
}

/** Notes the source's new run if a handoff has come back to it. */
export async function noteReturn(look: WorkflowLook, task: ScheduledTask, runId: string): Promise<void> {
  if (task.handoff_count === 0) return;
  const last = (await lastHandoffs(look.tx, [task.id])).get(task.id);
  if (last?.status === 'rejected' && !last.returned_run_id) await noteReturned(look.tx, last.id, runId);
}

async function handoffOf({ tx }: WorkflowLook, task: ScheduledTask): Promise<HandoffRow | undefined> {
  const last = (await lastHandoffs(tx, [task.id])).get(task.id);
  return last?.status === 'initiated' ? last : undefined;
}
