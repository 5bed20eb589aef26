/** Threads and their conversations as the API shows them. */
import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import type { ThreadView } from '../../modules/conversations/threads.ts';

export const thread = z
  .object({
    id: z.uuid(),
    thread_id: z.uuid(),
    agent_id: z.uuid(),
    title: z.string().nullable().describe('Made after the first turn, unless a client gives one.'),
    extras: z.record(z.string(), z.unknown()),
    total_runs: z.number(),
    last_run_id: z.uuid().nullable(),
    last_run_at: z.iso.datetime().nullable(),
    last_run_status: z.enum(RUN_STATUSES).nullable(),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    erased_at: z.iso.datetime().optional(),
  })
  .meta({ id: 'Thread' });

export function presentThread(row: ThreadView): z.input<typeof thread> {
  return {
    id: row.id,
    thread_id: row.id,
    agent_id: row.agent_id,
    title: row.title,
    extras: row.extras,
    total_runs: row.total_runs,
    last_run_id: row.head_run_id,
    last_run_at: row.last_run_at?.toISOString() ?? null,
    last_run_status: row.last_run_status,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    ...(row.erased_at && { erased_at: row.erased_at.toISOString() }),
  };
}
