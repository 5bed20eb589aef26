/** A look after a while, where nobody who could do a task takes it now: nobody tells of an agent that becomes free. */
import type { RunRow } from '../../../db/claim-run.ts';
import type { OutboxRow } from '../../../db/commit-run.ts';
import { lookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';

/**
 * Why it comes. `busy`: whoever could do it has as many tasks as it takes. `contended`: there may be room, but another
 * workflow is just about to give somebody a task, which is over as soon as that one's transaction.
 */
export type Delay = 'busy' | 'contended';

const BUSY_MS = 1000;
/** Of several that wait for the same transaction, each looks again at a time of its own. */
const CONTENDED_MS = { least: 100, spread: 200 };

/** Of several reasons that which lets it come first. */
export function sooner(one: Delay | undefined, other: Delay | undefined): Delay | undefined {
  return one === 'contended' ? one : (other ?? one);
}

/** The job that looks again. */
export function laterLook(
  { id: runId, tenant_id: tenantId }: Pick<RunRow, 'id' | 'tenant_id'>,
  delay: Delay,
): OutboxRow {
  const { least, spread } = CONTENDED_MS;
  const delay_ms = delay === 'busy' ? BUSY_MS : least + Math.floor(Math.random() * spread);
  // No id of a job that may be under way now: one that begins after `delay_ms` falls into a later one.
  const stepMs = delay === 'busy' ? BUSY_MS : least;
  const job_id = lookJobId(runId, new Date(Date.now() + delay_ms), stepMs);
  return { id: newId(), queue: SUBTASKS.name, job_id, delay_ms, payload: { tenantId, runId } };
}
