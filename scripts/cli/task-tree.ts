/** Arranges a workflow's subtasks as a tree: each is below its deepest dependency. */
import { line, type Branch } from './print.ts';

export interface Task {
  id: string;
  workflow_id: string | null;
  parent_run_id: string | null;
  subtask_id: string;
  description: string;
  dependencies: string[];
  status: string;
  run_id: string | null;
  waiting_for?: { type: string };
  assignment: { assigned_agent_id: string; assignment_reason: string | null } | null;
  retry_count: number;
  last_error: { code: string; message: string } | null;
  output: { result: string; tokens_used: number | null; latency_ms: number | null } | null;
  deadline: string | null;
  created_at: string;
  completed_at: string | null;
}

const MARKS: Record<string, string> = { completed: '✓', failed: '✗', cancelled: '–', pending: '·' };

/** One branch per task without dependencies; a task with several is below the deepest of them. */
export function taskBranches(tasks: readonly Task[]): Branch[] {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const depths = new Map<string, number>();
  const dependenciesOf = (task: Task) => task.dependencies.flatMap((each) => byId.get(each) ?? []);
  const depthOf = (task: Task): number => {
    const known = depths.get(task.id);
    if (known !== undefined) return known;
    const depth = 1 + Math.max(0, ...dependenciesOf(task).map(depthOf));
    depths.set(task.id, depth);
    return depth;
  };
  const below = new Map<string | undefined, Task[]>();
  for (const task of tasks) {
    const [deepest] = dependenciesOf(task).toSorted((a, b) => depthOf(b) - depthOf(a));
    below.set(deepest?.id, [...(below.get(deepest?.id) ?? []), task]);
  }
  const branch = (task: Task): Branch => ({
    text: describe(task, dependenciesOf(task)),
    children: (below.get(task.id) ?? []).map(branch),
  });
  return (below.get(undefined) ?? []).map(branch);
}

function describe(task: Task, dependencies: readonly Task[]): string {
  const { status, output, retry_count: retries } = task;
  const notes = [
    status,
    ...(task.waiting_for ? [`waits for ${task.waiting_for.type}`] : []),
    ...(output?.latency_ms == null ? [] : [`${(output.latency_ms / 1000).toFixed(1)} s`]),
    ...(output?.tokens_used == null ? [] : [`${output.tokens_used} tokens`]),
    ...(retries > 0 ? [`attempt ${retries + 1}`] : []),
    ...(dependencies.length > 1 ? [`after ${dependencies.map((each) => each.subtask_id).join(', ')}`] : []),
    ...(task.last_error && status !== 'completed' ? [`${task.last_error.code}: ${task.last_error.message}`] : []),
  ];
  return `${MARKS[status] ?? '▸'} ${line(task.subtask_id, 60)}  ${line(notes.join(', '), 160)}`;
}
