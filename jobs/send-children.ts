/** Sends the jobs of children that a look at their parent has begun; on Redis as a flow. */
import type { OutboxRow, WaitingJob } from '../db/commit-run.ts';
import { newId } from '../lib/new-id.ts';
import type { QueueBackend } from './backend.ts';
import type { Outbox } from './outbox.ts';
import { nextLookJobId, SUBTASKS } from './subtasks.ts';

interface BegunChildren {
  tenantId: string;
  /** The parent that was looked at. */
  runId: string;
  /** The first child, and its log's position. */
  first: { runId: string; seq: number; fence: number };
  rows: readonly OutboxRow[];
  /** The waiting look above the child whose end let these begin. */
  below: WaitingJob | undefined;
}

/**
 * On Redis the children's jobs lie below a later look at their workflow, which waits for them, so that the queue board
 * shows the tree. No row records this, and nothing depends on it: each child reports its end by a row of its own, and a
 * look trusts the rows of the tasks. `below` cannot start before that child's job has ended, so the new jobs go below
 * it, too. BullMQ lets a running job take children, but then refuses to end it: if no job is sure to wait, they get a
 * new look to wait for them. Resolves once the jobs below a look are sent.
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
