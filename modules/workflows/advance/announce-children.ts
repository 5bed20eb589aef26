/** After the commit of a look: sends the children that it has begun to whoever drives them. */
import type { OutboxRow } from '../../../db/commit-run.ts';
import { nextLookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';
import type { Context } from '../../governance/context.ts';
import { announceAppended, type Announcement } from '../../run-log/append-to-run.ts';

/**
 * On Redis they are sent as a flow: the jobs of the children below the next look at their workflow, which waits for them, so
 * that the board of the queues shows the tree. No row says so, and nothing depends on it: each child tells of its end by a job
 * of its own, and a look trusts the rows of the tasks. Children of a later look wait below a look of their own: BullMQ lets a job
 * take further children while it runs, and then refuses to end it, so that none can join one that may just begin.
 */
export function announceChildren(
  context: Context,
  { tenantId, runId }: { tenantId: string; runId: string },
  created: readonly Announcement[],
): void {
  const [first] = created;
  if (context.queues.kind !== 'redis' || !first) {
    for (const written of created) announceAppended(context, written);
    return;
  }
  const parent = { queue: SUBTASKS.name, job_id: nextLookJobId(first.runId) };
  const look: OutboxRow = { id: newId(), ...parent, payload: { tenantId, runId, childId: first.runId } };
  const children = created.flatMap(({ outbox }) => outbox.map((row) => ({ ...row, parent })));
  context.outbox.send(runId, first, [look, ...children]);
  for (const written of created) announceAppended(context, { ...written, outbox: [] });
}
