/** Sends the jobs of children that a look at their parent has begun: on Redis as a flow. */
import type { OutboxRow, WaitingJob } from '../db/commit-run.ts';
import { newId } from '../lib/new-id.ts';
import type { QueueBackend } from './backend.ts';
import type { Outbox } from './outbox.ts';
import { nextLookJobId, SUBTASKS } from './subtasks.ts';

interface BegunChildren {
  tenantId: string;
  /** The run that was looked at. */
  runId: string;
  /** The first of them, and where its log is. */
  first: { runId: string; seq: number; fence: number };
  rows: readonly OutboxRow[];
  /** The look that waits for the child whose end has let them begin. */
  below: WaitingJob | undefined;
}

/**
 * On Redis the jobs of the children lie below a later look at their workflow, which waits for them, so that the board of the
 * queues shows the tree. No row says so, and nothing depends on it: each child tells of its end by a row of its own, and a look
 * trusts the rows of the tasks. `below` cannot begin itself as long as that child's job has not ended, so they go below it, too.
 * BullMQ lets a job take further children while it runs, and then refuses to end it: where no job waits for sure, they get a
 * look of their own to wait for them. Resolves once what is to lie below a look is sent.
 */
export async function sendChildren(
  { queues, outbox }: { queues: QueueBackend; outbox: Outbox },
  { tenantId, runId, first, rows, below }: BegunChildren,
): Promise<void> {
  if (rows.length === 0) return;
  if (queues.kind !== 'redis') {
    void outbox.send(runId, first, rows);
    return;
  }
  const parent = below ?? { queue: SUBTASKS.name, job_id: nextLookJobId(first.runId) };
  const children = rows.map((row) => ({ ...row, parent }));
  const payload = { tenantId, runId, childId: first.runId };
  await outbox.send(runId, first, below ? children : [{ id: newId(), ...parent, payload }, ...children]);
}
