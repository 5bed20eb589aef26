/** One look at a workflow, under the lock of its run: what the scheduler knows, and what it has written so far. */
import type { NewEvent } from '../../../core/events.ts';
import type { TeamRow } from '../../../db/teams.ts';
import type { WorkerRow } from '../../../db/workers.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import type { Tx } from '../../../db/database.ts';
import type { Progress, ScheduledTask } from '../../../db/scheduled-tasks.ts';
import type { InputRow } from '../../../db/task-inputs.ts';
import type { WorkflowRow } from '../../../db/workflows.ts';
import type { Context } from '../../governance/context.ts';
import type { Governance } from '../../governance/governance.ts';
import type { SlotReservation } from '../../../jobs/slot-reservation.ts';
import type { WrittenRun } from '../../runs/written-run.ts';
import type { CancelledRun } from '../../runs/cancel-children.ts';

export interface WorkflowLook {
  context: Context;
  tx: Tx;
  run: RunRow;
  workflow: WorkflowRow;
  /** Those that this look has to do with, in their present state, what it has changed included: all of them, or none that only wait or are done. */
  tasks: ScheduledTask[];
  governance: Governance;
  /** Tasks whose inputs are there, where that was read already; and these, of no more than a few. */
  ready?: { tasks: ScheduledTask[]; inputs: InputRow[] | undefined } | undefined;
  /** Whether the workflow has tasks that are not completed, where nothing that it knows says so and that was read already. */
  progress?: Progress | undefined;
  /** The team that it is of, once that was read. */
  team?: TeamRow | 'deleted';
  /** Agents that were looked up, by what they were looked up for; each start counts among its running tasks. */
  workers: Map<string, WorkerRow[]>;
  /** Tasks that agents work on which take so many at a time, the starts of this look included: nobody else gives them any meanwhile. */
  places: Map<string, number>;
  /** Events for the log of the workflow's run. */
  events: NewEvent[];
  /** What was written last, on its way to the database: it goes in one round trip with the events. */
  writing?: Promise<unknown>;
  /** Slots of this process for children that it has written; given back where there is no commit. */
  held: SlotReservation[];
  /** Told after the commit: children that were created, and that were cancelled. */
  created: WrittenRun[];
  cancelled: CancelledRun[];
  /** Skills that are to be looked at after the commit: nobody is called just so, and somebody may do something like it. */
  untriedSkills?: string[];
  /** What a model is to be asked for after the commit. */
  need?: 'plan' | 'answer';
}

/** A look that has changed nothing yet. */
export function newLook(
  of: Pick<WorkflowLook, 'context' | 'tx' | 'run' | 'workflow' | 'tasks' | 'governance'>,
): WorkflowLook {
  return { ...of, workers: new Map(), places: new Map(), events: [], held: [], created: [], cancelled: [] };
}

type Told = Pick<NewEvent, 'type' | 'payload'>;

/** Adds an event of the scheduler. */
export function tell({ run, events }: WorkflowLook, event: Told): void {
  events.push({ actor: 'system', turn_id: run.open_turn_id ?? undefined, ...event } as NewEvent);
}

/** Changes what is known of a task. */
export function become(look: WorkflowLook, id: string, change: Partial<ScheduledTask>): void {
  look.tasks = look.tasks.map((task) => (task.id === id ? { ...task, ...change } : task));
}
