/** The first event of every run: a new one, a fork, a workflow, a child. */
import type { Carried, Handed } from '../../../core/carried.ts';
import { conflict } from '../../../core/errors.ts';
import type { NewEvent, RunKind } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import { ancestorsOf, userOf, type RunConfig } from '../../../core/run-config.ts';
import type { RunRow } from '../../../db/claim-run.ts';

type Created = Extract<NewEvent, { type: 'run.created' }>;

/** A run's place in a tree of runs. */
type PlaceInTree = Pick<Created['payload'], 'kind' | 'depth' | 'parent_run_id' | 'root_run_id' | 'parent_task_id'>;

/** The place of a run without a parent. */
export function onItsOwn(kind: RunKind = 'agent'): PlaceInTree {
  return { kind, depth: 0, parent_run_id: null, root_run_id: null, parent_task_id: null };
}

/** The parent's data needed by a child. */
export type Parent = Pick<RunRow, 'id' | 'root_run_id' | 'depth' | 'config' | 'created_at'>;

/** The place of a child. Throws 409 if the tree would be deeper than `LIMITS.runDepth`. */
export function asChild(parent: Parent, taskId: string): PlaceInTree {
  const depth = parent.depth + 1;
  if (depth > LIMITS.runDepth) throw conflict(`Runs may have children ${LIMITS.runDepth} levels deep.`, { depth });
  return { kind: 'agent', depth, parent_run_id: parent.id, root_run_id: parent.root_run_id, parent_task_id: taskId };
}

/** The settings that this run's children get from it: their ancestors, with their budgets, and the user whom they work for. */
export function inheritedFrom(parent: Parent): Pick<RunConfig, 'ancestors' | 'for_user'> {
  const for_user = userOf(parent.config);
  return { ...(for_user && { for_user }), ancestors: ancestorsOf(parent) };
}

/** The particulars of a run; by default it is neither a child nor a fork. */
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

/** Makes the event. */
export function runCreated({ traceparent, ...origin }: RunOrigin): Created {
  const alone = { forked_from_run_id: null, forked_at_seq: null, retried_from: null };
  const payload = { ...onItsOwn(), ...alone, ...origin, traceparent: traceparent ?? null };
  return { type: 'run.created', actor: 'user', payload };
}

/** The fields that a run takes over from the run that it continues. */
export function carriedFields(carried: Carried = {}): Handed {
  const { calibration, containerId, steered = [], refusedFiles = [], firstKept = 0, cut } = carried;
  return {
    ...(calibration && { calibration }),
    ...(containerId !== undefined && { container_id: containerId }),
    ...(steered.length > 0 && { steered }),
    ...(refusedFiles.length > 0 && { refused_files: refusedFiles }),
    ...(cut &&
      firstKept > 0 && {
        cut: { first_kept_ordinal: firstKept, dropped_tokens: cut.droppedTokens, budget_tokens: cut.budgetTokens },
      }),
  };
}
