/** What a team's members read of the thread with which its workflow goes on. */
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { conversationBefore, type Previous } from '../../runs/conversation-before.ts';
import type { WorkflowLook } from './workflow-look.ts';

/**
 * Whether a subtask stands on the thread's conversation: on a thread, a team splits nothing, so what is for a member by name is
 * the question itself, which may be about what was said. Others do a part of the work, and read nothing else.
 */
export function isOnThread({ run, workflow }: WorkflowLook, { agent_id }: ScheduledTask): boolean {
  return run.base_length > 0 && workflow.team_id !== null && agent_id !== null;
}

/** The conversation on which the subtask's child stands; undefined if it stands on none. */
export async function spokenBefore(look: WorkflowLook, task: ScheduledTask): Promise<Previous | undefined> {
  if (!isOnThread(look, task)) return undefined;
  look.before ??= conversationBefore(look.tx, look.run);
  return look.before;
}
