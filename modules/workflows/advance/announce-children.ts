/** After the commit of a look: drives the children that this process has claimed, and sends the others to other drivers. */
import type { WaitingJob } from '../../../db/commit-run.ts';
import { sendChildren } from '../../../jobs/send-children.ts';
import type { Context } from '../../governance/context.ts';
import { announceWritten, type WrittenRun } from '../../runs/written-run.ts';
import { announceAppended } from '../../run-log/append-to-run.ts';

/** `below`: the look that waits for the child whose end allowed these. Resolves once the jobs of the children are sent. */
export async function announceChildren(
  context: Context,
  { tenantId, runId }: { tenantId: string; runId: string },
  { created, below }: { created: readonly WrittenRun[]; below?: WaitingJob | undefined },
): Promise<void> {
  for (const written of created) if (written.driver) announceWritten(context, written);
  const left = created.filter(({ driver }) => !driver);
  const [first] = left;
  if (!first) return;
  const rows = left.flatMap(({ outbox }) => outbox);
  const sent = sendChildren(context, { tenantId, runId, first, rows, below });
  for (const written of left) announceAppended(context, { ...written, outbox: [] });
  await sent;
}
