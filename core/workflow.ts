/** Workflows as graphs of subtasks: what is wrong with one, and what of one starts next. Pure; times are arguments. */

/** A node: its own id, and those whose results it needs. */
export interface Subtask {
  id: string;
  dependencies: readonly string[];
}

/** A subtask on its way. `waiting`: not begun, or to be tried again. */
export interface SubtaskState extends Subtask {
  state: 'waiting' | 'running' | 'done' | 'failed';
  /** How long it is expected to take, in whatever unit all of them share; 1 where nobody knows. */
  weight?: number;
  /** When it has to be done, in ms since 1970, where that was said. */
  deadline_ms?: number | null;
}

/** When a subtask starts: as soon as its own inputs are there, or with all those of its level. */
export type Execution = 'eager' | 'levels';

/** What is wrong with a list of subtasks: where, as an index and a field, and what. */
interface PlanFault {
  index: number;
  field: 'id' | 'dependencies';
  message: string;
}

/** Every fault of a list of subtasks but for circles: ids that are there twice, dependencies on nothing or on itself. */
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
 * The subtasks of a further plan beside those that have these names: an id that is taken gets a number, and what depends on it
 * in this plan means the new one; only the new one itself can mean the old. A planner that counts its subtasks begins again at 1.
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

/** A circle of dependencies, from one of its subtasks back to it; undefined if there is none (000, "Hierarchical Planning", 2). */
export function findCycle(subtasks: readonly Subtask[]): string[] | undefined {
  const byId = new Map(subtasks.map((subtask) => [subtask.id, subtask]));
  const isClear = new Set<string>();
  for (const { id } of subtasks) {
    const cycle = circleFrom(id, byId, isClear);
    if (cycle) return cycle;
  }
  return undefined;
}

/** Depth-first with a stack of its own: a chain of thousands must not exhaust that of the process. */
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

/** By id: 0 for what depends on nothing, else one more than the highest of what it depends on. The graph has no circle. */
export function levelsOf(subtasks: readonly Subtask[]): Map<string, number> {
  const levels = new Map<string, number>();
  for (const { id, dependencies } of inOrder(subtasks)) {
    levels.set(id, Math.max(-1, ...dependencies.map((dependency) => levels.get(dependency) ?? -1)) + 1);
  }
  return levels;
}

/** By id: its own weight and that of the longest chain of subtasks which wait for it, one upon the other. */
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

/** Those that others depend on come before these. */
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
 * The subtasks to start now, `slots` at most: those whose inputs are there, the earliest deadline first, then the longest remaining path. In
 * `levels` none starts before the level below has ended.
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

/** Of subtasks whose inputs are there, the earliest deadline first, then that with the longest remaining path. */
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

/** The subtasks that no other depends on: their results are what the workflow came to. */
export function lastSubtasks<S extends Subtask>(subtasks: readonly S[]): S[] {
  const needed = new Set(subtasks.flatMap(({ dependencies }) => dependencies));
  return subtasks.filter(({ id }) => !needed.has(id));
}

/** What is read in the place of a result that is erased. */
export const ERASED_RESULT = '[erased]';
