/** The event that every run begins with: one that is created, a fork, a workflow, a child. */
import type { Carried } from '../../../core/carried.ts';
import { conflict } from '../../../core/errors.ts';
import type { NewEvent, RunKind } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import type { RunConfig } from '../../../core/run-config.ts';
import type { RunRow } from '../../../db/claim-run.ts';

type Created = Extract<NewEvent, { type: 'run.created' }>;

/** Where a run stands in a tree of runs. */
type PlaceInTree = Pick<Created['payload'], 'kind' | 'depth' | 'parent_run_id' | 'root_run_id' | 'parent_task_id'>;

/** A run that is nobody's child. */
export function onItsOwn(kind: RunKind = 'agent'): PlaceInTree {
  return { kind, depth: 0, parent_run_id: null, root_run_id: null, parent_task_id: null };
}

/** The parent as a child needs to know it. */
export type Parent = Pick<RunRow, 'id' | 'root_run_id' | 'depth' | 'config' | 'created_at'>;

/** Throws 409 where the tree would become deeper than `LIMITS.runDepth`. */
export function asChild(parent: Parent, taskId: string): PlaceInTree {
  const depth = parent.depth + 1;
  if (depth > LIMITS.runDepth) throw conflict(`Runs may have children ${LIMITS.runDepth} levels deep.`, { depth });
  return { kind: 'agent', depth, parent_run_id: parent.id, root_run_id: parent.root_run_id, parent_task_id: taskId };
}

/** The runs that a child of this one stands below, with their budgets. A retry has the root of the run that it tries again. */
export function ancestorsOf(parent: Parent): NonNullable<RunConfig['ancestors']> {
  const { ancestors = [], budget } = parent.config;
  const run_id = parent.depth === 0 ? parent.root_run_id : parent.id;
  return [...ancestors, { run_id, ...(budget && { budget }) }];
}

/** What is particular to a run; what is absent is that of a run which neither is a child nor stands on another one. */
type RunOrigin = Omit<
  Created['payload'],
  keyof PlaceInTree | 'forked_from_run_id' | 'forked_at_seq' | 'retried_from' | 'traceparent'
> &
  Partial<PlaceInTree> & {
    forked_from_run_id?: string | null;
    forked_at_seq?: number | null;
    retried_from?: string | null;
    traceparent?: string | null | undefined;
  };

/** The event. */
export function runCreated({ traceparent, ...origin }: RunOrigin): Created {
  const alone = { forked_from_run_id: null, forked_at_seq: null, retried_from: null };
  const payload = { ...onItsOwn(), ...alone, ...origin, traceparent: traceparent ?? null };
  return { type: 'run.created', actor: 'user', payload };
}

/** What a run takes over from the one that it goes on from. */
export function carriedFields({ calibration, containerId, steered = [] }: Carried = {}): Pick<
  Created['payload'],
  'calibration' | 'container_id' | 'steered'
> {
  return {
    ...(calibration && { calibration }),
    ...(containerId !== undefined && { container_id: containerId }),
    ...(steered.length > 0 && { steered }),
  };
}
