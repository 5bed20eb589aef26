/** Looks again after a while if nobody who could do a task takes it now: no event tells that an agent is free again. */
import type { RunRow } from '../../../db/claim-run.ts';
import type { OutboxRow } from '../../../db/commit-run.ts';
import { lookJobId, SUBTASKS } from '../../../jobs/subtasks.ts';
import { newId } from '../../../lib/new-id.ts';

/**
 * Why to look again. `busy`: every agent that could do it has as many tasks as it takes. `contended`: there may be
 * room, but another workflow's transaction is just giving tasks out.
 */
export type Delay = 'busy' | 'contended';

const BUSY_MS = 1000;
/** Random, so that those waiting for the same transaction look again at different times. */
const CONTENDED_MS = { least: 100, spread: 200 };

/** The reason with the shorter delay. */
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
  // An id that no job under way now can have: one that begins after `delay_ms` falls into a later step.
  const stepMs = delay === 'busy' ? BUSY_MS : least;
  const job_id = lookJobId(runId, new Date(Date.now() + delay_ms), stepMs);
  return { id: newId(), queue: SUBTASKS.name, job_id, delay_ms, payload: { tenantId, runId } };
}
