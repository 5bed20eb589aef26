/** Workflows: work split into subtasks, which agents do as children of the workflow's run. */
import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import { cancelTask } from '../../modules/workflows/cancel-task.ts';
import { createWorkflow, submitTask } from '../../modules/workflows/create-workflow.ts';
import {
  readTasks,
  readTaskWaits,
  readWaiting,
  readWorkflows,
  requireTask,
  requireWorkflow,
  TASK_STATUSES,
} from '../../modules/workflows/read-workflows.ts';
import { listParam, nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import {
  createTaskBody,
  createWorkflowBody,
  presentTask,
  presentTaskTo,
  submittedTask,
  presentWhole,
  presentWorkflow,
  task,
  workflow,
  workflowWithTasks,
} from './schemas.ts';

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/workflows',
  access: 'runs:write',
  summary: 'Start a workflow',
  idempotent: true,
  body: createWorkflowBody,
  responses: { 202: workflow },
  async handle({ caller, body, context, ctx, idempotency }) {
    const { name, agent_id, team_id, input, definition, on_subtask_failure, execution, max_replans } = body;
    const answer = await createWorkflow(
      context,
      {
        caller,
        name,
        agentId: agent_id,
        teamId: team_id,
        input,
        definition,
        settings: { on_subtask_failure, execution, max_replans },
        traceparent: ctx.state.traceparent,
        idempotency,
      },
      presentWorkflow,
    );
    return { ...answer, headers: { location: `/v1/workflows/${answer.body.id}` } };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/workflows',
  access: 'runs:read',
  summary: 'List workflows, newest first',
  query: pageQuery().extend({ status: listParam(z.enum(RUN_STATUSES)).optional() }),
  responses: { 200: pageFields('workflows', workflow) },
  async handle({ caller, query: { limit, cursor: before, status }, context }) {
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readWorkflows(tx, caller, { before, limit, status }),
    );
    return { status: 200, body: { workflows: rows.map(presentWorkflow), ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/workflows/:id',
  access: 'runs:read',
  summary: 'Get a workflow with its tasks',
  params: idOnly,
  responses: { 200: workflowWithTasks },
  async handle({ caller, params, context }) {
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const found = await requireWorkflow(tx, caller, params.id);
      return presentWhole(found, await readWaiting(tx, found));
    });
    return { status: 200, body };
  },
});

const submit = defineRoute({
  method: 'post',
  path: '/v1/tasks',
  access: 'runs:write',
  summary: 'Submit a task, to a workflow or by itself',
  idempotent: true,
  body: createTaskBody,
  responses: { 202: submittedTask },
  async handle({ caller, body, context, ctx, idempotency }) {
    const { workflow_id, parent_task_id, description, input, requirements = {} } = body;
    const [workflowId, parentTaskId] = [workflow_id ?? undefined, parent_task_id ?? undefined];
    const traceparent = ctx.state.traceparent;
    const request = { caller, description, workflowId, parentTaskId, input, requirements, traceparent, idempotency };
    const answer = await submitTask(context, request, (row, doneAt) => ({
      ...presentTask(row),
      estimated_completion: doneAt.toISOString(),
    }));
    return { ...answer, headers: { location: `/v1/tasks/${answer.body.id}` } };
  },
});

const listOfTasks = defineRoute({
  method: 'get',
  path: '/v1/tasks',
  access: 'runs:read',
  summary: 'List tasks, newest first',
  query: pageQuery().extend({
    workflow_id: idParam.optional(),
    status: listParam(z.enum(TASK_STATUSES)).optional(),
  }),
  responses: { 200: pageFields('tasks', task) },
  async handle({ caller, query: { limit, cursor: before, workflow_id: workflowId, status }, context }) {
    const { rows, more, waits } = await context.db.withTenant(caller.tenantId, async (tx) => {
      const found = await readTasks(tx, caller, { before, limit, workflowId, status });
      return { ...found, waits: await readTaskWaits(tx, found.rows) };
    });
    const tasks = rows.map((row) => presentTask(row, waits.children.get(row.id), waits.reasons.get(row.id)));
    return { status: 200, body: { tasks, ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const getTask = defineRoute({
  method: 'get',
  path: '/v1/tasks/:id',
  access: 'runs:read',
  summary: 'Get a task',
  params: idOnly,
  responses: { 200: task },
  async handle({ caller, params, context }) {
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const row = await requireTask(tx, caller, params.id);
      const { children, reasons } = await readTaskWaits(tx, [row]);
      return presentTask(row, children.get(row.id), reasons.get(row.id));
    });
    return { status: 200, body };
  },
});

const cancel = defineRoute({
  method: 'post',
  path: '/v1/tasks/:id/cancel',
  access: 'runs:write',
  summary: 'Cancel a task with its run: 202, and 200 when it was cancelled already',
  params: idOnly,
  body: z.strictObject({}),
  responses: { 200: task, 202: task },
  async handle({ caller, params, context }) {
    const isNew = await cancelTask(context, caller, params.id);
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireTask(tx, caller, params.id));
    return { status: isNew ? 202 : 200, body: presentTaskTo(caller, row) };
  },
});

export const WORKFLOW_ROUTES: readonly Route[] = [create, list, get, submit, listOfTasks, getTask, cancel];
