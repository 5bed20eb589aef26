/** Appends a planner's results to the workflow's log. */
import { resumeModelCall } from '../../../core/decision-events/model-calls.ts';
import { isTerminal } from '../../../core/events.ts';
import { areProgress } from '../../../core/lost-leases.ts';
import { readClockIn } from '../../../db/clock.ts';
import type { RunRow, RunWait } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import { listScheduledTasks } from '../../../db/scheduled-tasks.ts';
import { findWorkflow } from '../../../db/workflows.ts';
import { appendRead, type AppendedChange } from '../../run-log/append-to-run.ts';
import { announceCancelled, type CancelledRun } from '../../runs/cancel-children.ts';
import type { WorkflowLook } from '../advance/workflow-look.ts';
import type { Hold } from './hold-workflow.ts';

/** What is needed to write a planner's answer; it starts no tasks itself. */
export type PlannedStep = Pick<WorkflowLook, 'tx' | 'run' | 'workflow' | 'tasks' | 'events' | 'cancelled'>;

/** Appends under the planner's lease; nothing if another process has taken the run: it decides anew. */
export async function append(
  { context, run, answered, onProgress }: Hold,
  act: (step: PlannedStep) => Promise<AppendedChange | null>,
): Promise<void> {
  const cancelled: CancelledRun[] = [];
  const appended = await appendRead(
    context,
    { tenantId: run.tenant_id, runId: run.id },
    {
      read: (tx) => Promise.all([findWorkflow(tx, run.id), listScheduledTasks(tx, run.id)]),
      async act(now, tx, [workflow, tasks]) {
        if (!isHeld(run, now) || !workflow) return null;
        const change = await act({ tx, run: now, workflow, tasks, events: [], cancelled });
        return change && answered.model ? resumed(tx, now, { change, model: answered.model }) : change;
      },
    },
  );
  if (appended && areProgress(appended.events)) onProgress();
  announceCancelled(context, cancelled);
}

/** Events by which what the planner was asked for is done. */
const DONE: readonly string[] = ['workflow.planned', 'workflow.concluded'];

/** Tells with the work that the wait for a provider is over: an answer to one of several questions did not end it. */
async function resumed(
  tx: Tx,
  run: RunRow,
  { change, model }: { change: AppendedChange; model: string },
): Promise<AppendedChange> {
  const wait = providerWaitOf(run);
  if (!wait || !change.events.some(({ type }) => DONE.includes(type))) return change;
  const waited_ms = Math.max(0, (await readClockIn(tx)).getTime() - Date.parse(wait.since));
  const turn = run.open_turn_id === null ? null : { id: run.open_turn_id };
  return { ...change, events: [resumeModelCall({ turn }, run.steps, { model, waited_ms }), ...change.events] };
}

/** The run's wait for a provider; undefined if it has none. */
export function providerWaitOf({ waiting_for: wait }: RunRow): (RunWait & { since: string }) | undefined {
  return wait?.type === 'provider' && wait.since !== undefined ? { ...wait, since: wait.since } : undefined;
}

function isHeld({ fence }: RunRow, now: RunRow): boolean {
  return !isTerminal(now.status) && now.fence === fence;
}
