/** One look at a workflow, under the lock of its run: what the scheduler knows and has written so far. */
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
import type { Previous } from '../../runs/conversation-before.ts';
import type { WrittenRun } from '../../runs/written-run.ts';
import type { CancelledRun } from '../../runs/cancel-children.ts';

export interface WorkflowLook {
  context: Context;
  tx: Tx;
  run: RunRow;
  workflow: WorkflowRow;
  /** The tasks this look deals with, including its own changes: either all, or all but those that just wait or are done. */
  tasks: ScheduledTask[];
  governance: Governance;
  /** Tasks whose inputs are there, if read already, and the inputs if they are few. */
  ready?: { tasks: ScheduledTask[]; inputs: InputRow[] | undefined } | undefined;
  /** Whether all tasks are completed, if `tasks` did not tell and it was read already. */
  progress?: Progress | undefined;
  /** The workflow's team, once read. */
  team?: TeamRow | 'deleted';
  /** What was said on the thread before the workflow, once read. */
  before?: Promise<Previous | undefined>;
  /** Agents by the filter they were looked up with; `running` includes this look's starts. */
  workers: Map<string, WorkerRow[]>;
  /**
   * Running tasks, with this look's starts, of agents that limit them; locked, so that nobody else gives them any
   * meanwhile.
   */
  places: Map<string, number>;
  /** Events for the log of the workflow's run. */
  events: NewEvent[];
  /** The last statements, on their way to the database: they share a round trip with the events. */
  writing?: Promise<unknown>;
  /** Reserved slots for the children written here; given back if there is no commit. */
  held: SlotReservation[];
  /** Announced after the commit: children that were created, and runs that were cancelled. */
  created: WrittenRun[];
  cancelled: CancelledRun[];
  /** Skills to look up after the commit: no agent has them by that name, but some may have a similar one. */
  untriedSkills?: string[];
  /** What to ask a model for after the commit. */
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

/** Updates a task in memory. */
export function become(look: Pick<WorkflowLook, 'tasks'>, id: string, change: Partial<ScheduledTask>): void {
  look.tasks = look.tasks.map((task) => (task.id === id ? { ...task, ...change } : task));
}
