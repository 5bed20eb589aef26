/** Workflows as graphs of subtasks: validation, and which subtasks start next. Pure; times are arguments. */

/** A node: its id, and the subtasks whose results it needs. */
export interface Subtask {
  id: string;
  dependencies: readonly string[];
}

/** A subtask in progress. `waiting`: not begun, or to be retried. */
export interface SubtaskState extends Subtask {
  state: 'waiting' | 'running' | 'done' | 'failed';
  /** Expected duration, in any unit common to all; 1 if unknown. */
  weight?: number;
  /** Deadline in ms since 1970, if there is one. */
  deadline_ms?: number | null;
}

/** When subtasks start: as soon as their inputs are there, or level by level. */
export type Execution = 'eager' | 'levels';

/** A fault in a list of subtasks: index, field and message. */
interface PlanFault {
  index: number;
  field: 'id' | 'dependencies';
  message: string;
}

/** All faults except cycles: duplicate ids, and dependencies on unknown subtasks or on themselves. */
export function planFaults(subtasks: readonly Subtask[]): PlanFault[] {
  const ids = new Set(subtasks.map(({ id }) => id));
  return subtasks.flatMap(({ id, dependencies }, index): PlanFault[] => {
    const isSecond = subtasks.findIndex((other) => other.id === id) !== index;
    const unknown = dependencies.filter((dependency) => !ids.has(dependency));
    return [
      ...(isSecond ? [{ index, field: 'id' as const, message: `is there twice: ${id}` }] : []),
      ...unknown.map((name) => ({ index, field: 'dependencies' as const, message: `names no subtask: ${name}` })),
    ];
  });
}

/**
 * Renames subtasks of a further plan whose ids are in `names`, by adding a number. Dependencies in this plan refer to the new
 * subtask; only in the renamed subtask itself do they refer to the old one. (Planners that number their subtasks start again
 * at 1.)
 */
export function withFreeIds<S extends Subtask>(subtasks: readonly S[], names: readonly string[]): S[] {
  const taken = new Set(names);
  const used = new Set([...names, ...subtasks.map(({ id }) => id)]);
  const renamed = new Map<string, string>();
  for (const { id } of subtasks) {
    if (!taken.has(id) || renamed.has(id)) continue;
    let number = 2;
    while (used.has(`${id}_${number}`)) number += 1;
    renamed.set(id, `${id}_${number}`);
    used.add(`${id}_${number}`);
  }
  if (renamed.size === 0) return [...subtasks];
  const nameOf = (id: string) => renamed.get(id) ?? id;
  return subtasks.map((each) => {
    const dependencies = each.dependencies.map((id) => (id === each.id ? id : nameOf(id)));
    return { ...each, id: nameOf(each.id), dependencies };
  });
}

/** A cycle of dependencies, from one of its subtasks back to it; undefined if there is none (000, "Hierarchical Planning", 2). */
export function findCycle(subtasks: readonly Subtask[]): string[] | undefined {
  const byId = new Map(subtasks.map((subtask) => [subtask.id, subtask]));
  const isClear = new Set<string>();
  for (const { id } of subtasks) {
    const cycle = circleFrom(id, byId, isClear);
    if (cycle) return cycle;
  }
  return undefined;
}

/** Depth-first with an explicit stack: chains of thousands must not overflow the call stack. */
function circleFrom(start: string, byId: ReadonlyMap<string, Subtask>, isClear: Set<string>): string[] | undefined {
  const path: { id: string; next: number }[] = [{ id: start, next: 0 }];
  const onPath = new Set([start]);
  for (let top = path.at(-1); top; top = path.at(-1)) {
    const dependency = isClear.has(top.id) ? undefined : byId.get(top.id)?.dependencies[top.next++];
    if (dependency === undefined) {
      isClear.add(top.id);
      onPath.delete(top.id);
      path.pop();
    } else if (onPath.has(dependency)) {
      const ids = path.map(({ id }) => id);
      return [...ids.slice(ids.indexOf(dependency)), dependency];
    } else if (byId.has(dependency) && !isClear.has(dependency)) {
      path.push({ id: dependency, next: 0 });
      onPath.add(dependency);
    }
  }
  return undefined;
}

/** Level by id: 0 without dependencies, otherwise one above the highest of them. The graph must be acyclic. */
export function levelsOf(subtasks: readonly Subtask[]): Map<string, number> {
  const levels = new Map<string, number>();
  for (const { id, dependencies } of inOrder(subtasks)) {
    levels.set(id, Math.max(-1, ...dependencies.map((dependency) => levels.get(dependency) ?? -1)) + 1);
  }
  return levels;
}

/** By id: the subtask's own weight plus that of the heaviest chain of subtasks that depend on it. */
export function remainingPaths(subtasks: readonly (Subtask & { weight?: number })[]): Map<string, number> {
  const paths = new Map<string, number>();
  const after = new Map<string, number>();
  for (const { id, dependencies, weight = 1 } of inOrder(subtasks).toReversed()) {
    const path = weight + (after.get(id) ?? 0);
    paths.set(id, path);
    for (const dependency of dependencies) after.set(dependency, Math.max(after.get(dependency) ?? 0, path));
  }
  return paths;
}

/** Topological order: dependencies first. */
function inOrder<S extends Subtask>(subtasks: readonly S[]): S[] {
  const open = new Map(subtasks.map(({ id, dependencies }) => [id, new Set(dependencies).size]));
  const dependents = new Map<string, S[]>();
  for (const subtask of subtasks) {
    for (const dependency of new Set(subtask.dependencies)) {
      const known = dependents.get(dependency);
      if (known) known.push(subtask);
      else dependents.set(dependency, [subtask]);
    }
  }
  const ordered = subtasks.filter(({ id }) => open.get(id) === 0);
  for (let at = 0; at < ordered.length; at++) {
    for (const subtask of dependents.get(ordered[at]?.id ?? '') ?? []) {
      const left = (open.get(subtask.id) ?? 0) - 1;
      open.set(subtask.id, left);
      if (left === 0) ordered.push(subtask);
    }
  }
  return ordered;
}

/**
 * Selects up to `slots` subtasks to start: inputs are there, earliest deadline first, then longest remaining path. With
 * `levels`, none starts before the level below has ended.
 */
export function nextSubtasks<S extends SubtaskState>(
  subtasks: readonly S[],
  { slots, execution }: { slots: number; execution: Execution },
): S[] {
  if (slots <= 0) return [];
  const done = new Set(subtasks.filter(({ state }) => state === 'done').map(({ id }) => id));
  const ready = subtasks.filter(
    ({ state, dependencies }) => state === 'waiting' && dependencies.every((dependency) => done.has(dependency)),
  );
  if (ready.length === 0) return [];
  const allowed = execution === 'eager' ? ready : ofLowestLevel(subtasks, ready);
  const paths = remainingPaths(subtasks);
  return inTurn(allowed, (subtask) => paths.get(subtask.id) ?? 0).slice(0, slots);
}

/** Sorts by deadline, earliest first, then by remaining path, longest first. */
export function inTurn<S extends Pick<SubtaskState, 'deadline_ms'>>(
  ready: readonly S[],
  pathOf: (subtask: S) => number,
): S[] {
  const until = ({ deadline_ms: deadline }: S) => deadline ?? Number.MAX_SAFE_INTEGER;
  return ready.toSorted((a, b) => until(a) - until(b) || pathOf(b) - pathOf(a));
}

function ofLowestLevel<S extends SubtaskState>(subtasks: readonly S[], ready: readonly S[]): S[] {
  const levels = levelsOf(subtasks);
  const level = ({ id }: Subtask) => levels.get(id) ?? 0;
  const lowest = Math.min(...subtasks.filter(({ state }) => state !== 'done').map(level));
  return ready.filter((subtask) => level(subtask) === lowest);
}

/** Subtasks that no other depends on: their results are the workflow's. */
export function lastSubtasks<S extends Subtask>(subtasks: readonly S[]): S[] {
  const needed = new Set(subtasks.flatMap(({ dependencies }) => dependencies));
  return subtasks.filter(({ id }) => !needed.has(id));
}

/** Shown in place of an erased result. */
export const ERASED_RESULT = '[erased]';
