/** After the commit of a look: drives the children that this process has claimed, and sends the others to whoever drives them. */
import type { OutboxRow, WaitingJob } from '../../../db/commit-run.ts';
import { nextLookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../governance/context.ts';
import { announceWritten, type WrittenRun } from '../../runs/written-run.ts';
import { announceAppended, type Announcement } from '../../run-log/append-to-run.ts';

/**
 * On Redis they are sent as a flow: the jobs of the children below a later look at their workflow, which waits for them, so
 * that the board of the queues shows the tree. No row says so, and nothing depends on it: each child tells of its end by a row
 * of its own, and a look trusts the rows of the tasks. `below`: the look that waits for the child whose end has let them begin;
 * it cannot begin itself as long as that child's job has not ended, so they go below it, too. BullMQ lets a job take further
 * children while it runs, and then refuses to end it: where no job waits for sure, they get a look of their own to wait for
 * them. Resolves once they are sent.
 */
export async function announceChildren(
  context: Context,
  { tenantId, runId }: { tenantId: string; runId: string },
  { created, below }: { created: readonly WrittenRun[]; below?: WaitingJob | undefined },
): Promise<void> {
  const sent = created.filter(({ driver }) => !driver);
  for (const written of created) if (written.driver) announceWritten(context, written);
  return sendChildren(context, { tenantId, runId }, { created: sent, below });
}

async function sendChildren(
  context: Context,
  { tenantId, runId }: { tenantId: string; runId: string },
  { created, below }: { created: readonly Announcement[]; below: WaitingJob | undefined },
): Promise<void> {
  const [first] = created;
  if (context.queues.kind !== 'redis' || !first) {
    for (const written of created) announceAppended(context, written);
    return;
  }
  const parent = below ?? { queue: SUBTASKS.name, job_id: nextLookJobId(first.runId) };
  const look: OutboxRow = {
    id: newId(),
    queue: SUBTASKS.name,
    job_id: parent.job_id,
    payload: { tenantId, runId, childId: first.runId },
  };
  const children = created.flatMap(({ outbox }) => outbox.map((row) => ({ ...row, parent })));
  const sent = context.outbox.send(runId, first, below ? children : [look, ...children]);
  for (const written of created) announceAppended(context, { ...written, outbox: [] });
  await sent;
}
