/** Workflows in a torture: subtasks with effects on three levels, and checks afterwards. */
import { setTimeout as delay } from 'node:timers/promises';
import type { RetryingClient } from './client.ts';
import type { HttpTool, Script } from './plan.ts';
import { createRandom } from './random.ts';

interface PlannedSubtask {
  id: string;
  /** A script for the model of this subtask. */
  description: string;
  dependencies: string[];
}

interface PlannedWorkflow {
  label: string;
  startAtMs: number;
  subtasks: PlannedSubtask[];
}

export interface StartedWorkflow {
  plan: PlannedWorkflow;
  id: string;
}

const RUNS_PER_WORKFLOW = 8;
const LEVELS = 3;
const WIDTH = 3;

/** Plans one workflow per several runs: each subtask makes a call, and depends on two of the level below. */
export function planWorkflows(seed: number, { runs, withinMs }: { runs: number; withinMs: number }): PlannedWorkflow[] {
  const random = createRandom(seed, 'workflows');
  const scriptOf = (label: string): Script => {
    const tool = random.pick<HttpTool>(['lookup', 'record', 'charge']);
    const input = { intent: `${label}-1-1`, ms: random.whole(2, 600), fault: 'none' as const };
    return { label, steps: [{ calls: [{ tool, input }], thinkMs: random.whole(0, 200), breaks: random.chance(0.05) }] };
  };
  return Array.from({ length: Math.ceil(runs / RUNS_PER_WORKFLOW) }, (_workflow, index) => {
    const label = `workflow-${index + 1}`;
    const subtasks = Array.from({ length: LEVELS * WIDTH }, (_subtask, at): PlannedSubtask => {
      const level = Math.floor(at / WIDTH);
      const below = [at % WIDTH, (at + 1) % WIDTH].map((place) => `${level - 1}-${place}`);
      const id = `${level}-${at % WIDTH}`;
      const description = JSON.stringify(scriptOf(`${label}-${id}`));
      return { id, description, dependencies: level === 0 ? [] : below };
    });
    return { label, startAtMs: random.whole(0, withinMs), subtasks };
  });
}

/** Starts each workflow at its time; `started` grows meanwhile. */
export async function startWorkflows(
  client: RetryingClient,
  work: { agent: string; plan: readonly PlannedWorkflow[]; started: StartedWorkflow[]; signal: AbortSignal },
): Promise<void> {
  const start = async (plan: PlannedWorkflow) => {
    await delay(plan.startAtMs, undefined, { signal: work.signal });
    const body = {
      name: plan.label,
      agent_id: work.agent,
      input: { user_query: plan.label },
      definition: { subtasks: plan.subtasks },
    };
    const { id } = await client.post<{ id: string }>('/v1/workflows', body, plan.label);
    work.started.push({ plan, id });
  };
  await Promise.all(work.plan.map(start));
}

interface ExaminedWorkflows {
  completed: number;
  /** Incomplete workflows, with their incomplete subtasks. */
  unlike: string[];
  /** Subtasks that were started more than once. */
  repeated: string[];
}

interface WorkflowView {
  status: string;
  error?: { code: string; message: string };
  tasks: { subtask_id: string; status: string; retry_count: number }[];
}

const ENDED = ['completed', 'failed', 'cancelled'];
const POLL_MS = 500;

/** Waits for their ends or until the time is up, then examines them. */
export async function examineWorkflows(
  client: RetryingClient,
  workflows: readonly StartedWorkflow[],
  withinMs: number,
): Promise<ExaminedWorkflows> {
  const endsAtMs = performance.now() + withinMs;
  const found: ExaminedWorkflows = { completed: 0, unlike: [], repeated: [] };
  for (const { plan, id } of workflows) {
    const { status, error, tasks } = await viewAtEnd(client, id, endsAtMs);
    const { runs } = await client.get<{ runs: { status: string }[] }>(`/v1/runs?parent=${id}&limit=200`);
    const open = tasks.filter((task) => task.status !== 'completed');
    const left = runs.filter((run) => !ENDED.includes(run.status)).length;
    if (status === 'completed' && open.length === 0 && left === 0) found.completed += 1;
    else {
      const of = open.map((task) => `${task.subtask_id} ${task.status}`).join(', ');
      found.unlike.push(`${plan.label} (${id}) is ${status} ${error?.message ?? ''}, ${left} children are open: ${of}`);
    }
    const again = tasks.filter(({ retry_count: retries }) => retries > 0).map((task) => task.subtask_id);
    if (again.length > 0 || runs.length > tasks.length) {
      found.repeated.push(
        `${plan.label} (${id}) had ${runs.length} children for ${tasks.length} subtasks (${again.join(', ')})`,
      );
    }
  }
  return found;
}

async function viewAtEnd(client: RetryingClient, id: string, endsAtMs: number): Promise<WorkflowView> {
  for (;;) {
    const view = await client.get<WorkflowView>(`/v1/workflows/${id}`);
    if (ENDED.includes(view.status) || performance.now() > endsAtMs) return view;
    await delay(POLL_MS);
  }
}
