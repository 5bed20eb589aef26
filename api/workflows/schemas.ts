/** Workflows and tasks in the API's form. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { textOf } from '../../core/content.ts';
import { RUN_STATUSES } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { shownMoney } from '../../core/money.ts';
import { hasScope } from '../../core/scopes.ts';
import {
  TASK_STATUSES,
  type TaskOfWorkflow,
  type TaskRow,
  type WorkflowRow,
} from '../../modules/workflows/read-workflows.ts';
import type { RunView } from '../../modules/runs/read-runs.ts';
import type { Waiting } from '../../modules/workflows/read-workflows.ts';
import { presentWaiting, presentWaitingChild, waitingFor } from '../runs/waiting.ts';
import { agentIdParam, agentNameParam } from '../kit/external-ids.ts';
import { idParam, timeTextParam } from '../kit/validate.ts';

const name = z.string().min(1).max(200);
const text = z.string().min(1).max(100_000);
const names = z.array(name).max(100);

const subtask = z
  .strictObject({
    id: z.string().min(1).max(200),
    description: text,
    dependencies: z.array(name).max(LIMITS.subtasksPerPlan).default([]),
    required_capabilities: names.optional(),
    agent: agentNameParam.optional().describe('The agent that does it, by id or by name.'),
  })
  .meta({ id: 'Subtask' });

export const createWorkflowBody = z.strictObject({
  name,
  agent_id: agentIdParam.optional(),
  team_id: idParam.optional(),
  input: z.strictObject({ user_query: text, context: z.unknown().optional() }),
  definition: z
    .strictObject({ subtasks: z.array(subtask).min(1), success_criteria: z.string().max(20_000).optional() })
    .optional(),
  on_subtask_failure: z.enum(['fail', 'ask']).default('fail'),
  execution: z.enum(['eager', 'levels']).default('eager'),
  max_replans: z.int().min(0).max(10).default(2),
});

export const createTaskBody = z.strictObject({
  workflow_id: idParam.nullish(),
  parent_task_id: idParam.nullish().describe('The task that it is a part of; nothing else depends on it.'),
  description: text,
  input: z
    .strictObject({
      user_query: z.string().max(100_000).optional(),
      context: z.unknown().optional(),
      constraints: z.unknown().optional(),
    })
    .optional(),
  requirements: z
    .strictObject({
      required_capabilities: names.optional(),
      preferred_agents: z.array(agentIdParam).max(100).optional(),
      excluded_agents: z.array(agentIdParam).max(100).optional(),
      max_cost_tokens: z.int().min(1).max(LIMITS.taskTokens).optional(),
      deadline: timeTextParam.optional(),
    })
    .optional(),
});

const when = z.iso.datetime();
const problem = z.object({ code: z.string(), message: z.string() });

export const task = z
  .object({
    id: z.uuid(),
    task_id: z.uuid(),
    workflow_id: z.uuid().nullable().describe('Null for what an agent has delegated.'),
    parent_run_id: z.uuid().nullable().describe('The run that has delegated it.'),
    parent_task_id: z
      .uuid()
      .nullable()
      .describe(
        'The task that it is a part of: as whoever submitted it has said, or the one whose run has delegated it.',
      ),
    subtask_id: z.string(),
    description: z.string(),
    input: z.record(z.string(), z.unknown()),
    requirements: z.record(z.string(), z.unknown()),
    dependencies: z.array(z.uuid()),
    status: z.enum(TASK_STATUSES),
    run_id: z.uuid().nullable().describe('The child that works on it, or has last.'),
    waiting_for: waitingFor
      .optional()
      .describe('What that child waits for; `POST /v1/runs/{run_id}/resume` answers it.'),
    pending_reason: z
      .string()
      .optional()
      .describe('Why a task that could begin does not, where it is for one agent: what keeps that agent.'),
    assignment: z
      .object({ assigned_agent_id: z.uuid(), assigned_at: when, assignment_reason: z.string().nullable() })
      .nullable(),
    progress: z
      .object({ run_status: z.enum(RUN_STATUSES), steps: z.int(), tokens_used: z.int() })
      .nullable()
      .describe('How far the run that works on it has come.'),
    retry_count: z.int(),
    last_error: problem.nullable(),
    error: problem.optional(),
    execution: z.object({
      status: z.enum(TASK_STATUSES),
      retry_count: z.int(),
      last_error: z.string().nullable().describe('The message of `last_error`.'),
    }),
    output: z
      .object({
        result: z.string(),
        confidence: z.number().nullable().describe('Where the result is a JSON object that has one, from 0 to 1.'),
        tokens_used: z.int().nullable(),
        latency_ms: z.int().nullable(),
      })
      .nullable(),
    deadline: when.nullable(),
    created_at: when,
    updated_at: when,
    completed_at: when.nullable(),
  })
  .meta({ id: 'Task' });

/** The answer to a submission. */
export const submittedTask = task
  .extend({ estimated_completion: when.describe('By what the agent that fits best has taken before.') })
  .meta({ id: 'SubmittedTask' });

export const workflow = z
  .object({
    id: z.uuid(),
    workflow_id: z.uuid(),
    run_id: z.uuid(),
    name: z.string(),
    agent_id: z.uuid().nullable(),
    team_id: z.uuid().nullable(),
    status: z.enum(RUN_STATUSES),
    input: z.record(z.string(), z.unknown()),
    success_criteria: z.string().nullable(),
    on_subtask_failure: z.enum(['fail', 'ask']),
    execution: z.enum(['eager', 'levels']),
    max_replans: z.int(),
    result: z.string().nullable(),
    meets_criteria: z.boolean().nullable().describe('Null where nobody has looked.'),
    gaps: z.array(z.string()),
    plans: z.int(),
    error: problem.optional(),
    created_at: when,
    started_at: when.nullable(),
    completed_at: when.nullable(),
  })
  .meta({ id: 'Workflow' });

export const workflowWithTasks = workflow.extend({
  usage: z
    .object({ tokens_in: z.int(), tokens_out: z.int(), cost_usd: z.number().nullable() })
    .describe('Of all runs below it, and of its planner.'),
  waiting_for: waitingFor
    .optional()
    .describe('A decision about a failed subtask; or `child`: the first of those that wait.'),
  tasks: z.array(
    task.extend({
      content_ref: z
        .string()
        .optional()
        .describe('Where the task is whole; without description, input, requirements and output it is shown here.'),
      content_bytes: z.int().optional().describe('How much is left out.'),
    }),
  ),
});

/** A task, without the content of an erased one. `child`: its run, if that waits. `reason`: why it does not begin. */
export function presentTask(row: TaskRow, child?: RunView, reason?: string): z.input<typeof task> {
  const waiting = child && presentWaiting(child);
  const hasOutput = row.status === 'completed' || (row.status === 'failed' && row.output !== null);
  return {
    id: row.id,
    task_id: row.id,
    workflow_id: row.workflow_id,
    parent_run_id: row.parent_run_id,
    parent_task_id: row.parent_task_id,
    subtask_id: row.name,
    description: row.description,
    input: { ...row.input },
    requirements: { ...row.requirements, ...(row.deadline && { deadline: row.deadline.toISOString() }) },
    dependencies: row.dependencies,
    status: row.status,
    run_id: row.run_id,
    ...(waiting && { waiting_for: waiting }),
    ...(reason !== undefined && { pending_reason: reason }),
    assignment:
      row.assigned_agent_id && row.assigned_at
        ? {
            assigned_agent_id: row.assigned_agent_id,
            assigned_at: row.assigned_at.toISOString(),
            assignment_reason: row.assignment_reason,
          }
        : null,
    progress: row.progress,
    retry_count: row.retry_count,
    last_error: row.error,
    ...(row.status === 'failed' && row.error && { error: row.error }),
    execution: { status: row.status, retry_count: row.retry_count, last_error: row.error?.message ?? null },
    output: hasOutput
      ? {
          result: textOf(row.output ?? []),
          confidence: confidenceOf(textOf(row.output ?? [])),
          tokens_used: row.tokens_used === null ? null : Number(row.tokens_used),
          latency_ms: row.latency_ms,
        }
      : null,
    deadline: row.deadline?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}

/** For a caller that has changed it: without its subject and result, if the caller may not read them. */
export function presentTaskTo(caller: Caller, row: TaskRow): z.input<typeof task> {
  const shown = presentTask(row);
  if (hasScope(caller.scopes, 'runs:read')) return shown;
  const { error: _error, execution, ...rest } = shown;
  const about = { description: '', input: {}, requirements: {}, output: null, last_error: null };
  return { ...rest, ...about, execution: { ...execution, last_error: null } };
}

/** The confidence that an agent states in its result; null if none. */
function confidenceOf(result: string): number | null {
  if (!result.trimStart().startsWith('{')) return null;
  try {
    const { confidence } = JSON.parse(result) as { confidence?: unknown };
    return typeof confidence === 'number' && confidence >= 0 && confidence <= 1 ? confidence : null;
  } catch {
    return null;
  }
}

export function presentWorkflow(row: WorkflowRow): z.input<typeof workflow> {
  const { on_subtask_failure, execution, max_replans } = row.settings;
  return {
    id: row.id,
    workflow_id: row.id,
    run_id: row.id,
    name: row.name,
    agent_id: row.agent_id,
    team_id: row.team_id,
    status: row.status,
    input: { ...row.input },
    success_criteria: row.success_criteria,
    on_subtask_failure,
    execution,
    max_replans,
    result: row.status === 'completed' && row.output && !row.erased_at ? textOf(row.output) : null,
    meets_criteria: row.meets_criteria,
    gaps: row.gaps,
    plans: row.plans,
    ...(row.error && { error: row.error }),
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}

/** A task beside the others of its workflow: one that has no room by its address. */
function presentFitting(row: TaskOfWorkflow, { children, reasons }: Waiting) {
  const shown = presentTask(row, children.get(row.id), reasons.get(row.id));
  if (row.left_out_bytes === null) return shown;
  return { ...shown, output: null, content_ref: `/v1/tasks/${row.id}`, content_bytes: row.left_out_bytes };
}

/** A workflow with its tasks and their waits. */
export function presentWhole(
  found: { workflow: WorkflowRow; tasks: readonly TaskOfWorkflow[] },
  waits: Waiting,
): z.input<typeof workflowWithTasks> {
  const { own, children } = waits;
  const tasks = found.tasks.map((row) => presentFitting(row, waits));
  const waiting = (own && presentWaiting(own)) ?? presentWaitingChild(found.tasks, children);
  const { tokens_in = 0, tokens_out = 0, cost_usd = null } = own ?? {};
  return {
    ...presentWorkflow(found.workflow),
    usage: { tokens_in, tokens_out, cost_usd: shownMoney(cost_usd) },
    ...(waiting && { waiting_for: waiting }),
    tasks,
  };
}
