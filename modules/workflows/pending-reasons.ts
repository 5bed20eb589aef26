/** Why tasks that could begin do not. */
import type { Tx } from '../../db/database.ts';
import { listAwaitedAgents } from '../../db/agent-lifecycle.ts';
import type { TaskRow } from '../../db/tasks.ts';
import { whyNotTaken } from '../agents/why-not-taken.ts';

/**
 * For each of these tasks that waits for the one agent that does it, a sentence that says what keeps the agent. Tasks that
 * several agents could do are not among them.
 */
export async function readPendingReasons(
  tx: Tx,
  tasks: readonly Pick<TaskRow, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, string>> {
  const pending = tasks.filter(({ status }) => status === 'pending');
  if (pending.length === 0) return new Map();
  const awaited = await listAwaitedAgents(
    tx,
    pending.map(({ id }) => id),
  );
  const reasons = awaited.map((agent) => [agent.task_id, whyNotTaken(agent) ?? whyFull(agent)] as const);
  return new Map(reasons.filter((each): each is [string, string] => each[1] !== undefined));
}

function whyFull({ definition, running }: Awaited<ReturnType<typeof listAwaitedAgents>>[number]): string | undefined {
  const most = definition.constraints?.max_concurrent_tasks;
  if (most === undefined || running < most) return undefined;
  return `The agent ${definition.name} has as many tasks as it takes at a time (${running} of ${most}).`;
}
