/** Something from outside that a run may wait for: a row first, then an event. Early it is kept, twice it counts once. */
import { conflict } from '../core/errors.ts';
import { isTerminal, type RunStatus } from '../core/events.ts';
import { newId } from '../core/ids.ts';
import { insertSignal } from '../db/approvals.ts';
import type { Context } from '../engine/context.ts';
import { appendToRun } from './append-to-run.ts';
import { wake } from './decide-approval.ts';

export interface PostedSignal {
  tenant: string;
  run: string;
  /** Makes it count once; one is made where it is absent. */
  id?: string | undefined;
  type: 'timer' | 'webhook' | 'user' | 'tool_results';
  name?: string | undefined;
  payload: unknown;
}

/** Keeps the signal in the run's log and wakes the run; `isNew` is false for a repeated one. 409 for a finished run. */
export async function postSignal(context: Context, signal: PostedSignal): Promise<{ id: string; isNew: boolean }> {
  const id = signal.id ?? newId();
  const appended = await appendToRun(context, signal, async (run, tx) => {
    if (isTerminal(run.status as RunStatus)) throw conflict(`The run is ${run.status}; it takes no more signals.`);
    const { tenant: tenantId, run: runId, type, name, payload } = signal;
    if (!(await insertSignal(tx, { tenantId, runId, id, type }))) return null;
    const event = { signal_id: id, type, ...(name !== undefined && { name }), payload: payload ?? null };
    return {
      events: [{ type: 'signal.received', actor: 'user', turn_id: run.open_turn_id ?? undefined, payload: event }],
      ...(run.status === 'awaiting_human' && run.open_turn_id ? wake(run) : {}),
    };
  });
  return { id, isNew: appended !== null };
}
