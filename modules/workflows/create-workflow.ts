/** Starts workflows, and tasks that stand alone. Each is a run of kind `workflow`, whose log tells how its tasks go. */
import { BUILTIN_PLANNER } from '../../core/builtin-planner.ts';
import { conflict, impossible, notFound } from '../../core/errors.ts';
import { isTerminal } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { isVoting, planOfTeam } from '../../core/team.ts';
import { withFreeIds } from '../../core/workflow.ts';
import type { Caller } from '../../core/caller.ts';
import type { RequestedConfig } from '../../core/run-config.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { newId } from '../../lib/new-id.ts';
import type { Tx } from '../../db/database.ts';
import {
  findTask,
  listTaskNames,
  type NewTask,
  type TaskInput,
  type TaskRequirements,
  type TaskRow,
} from '../../db/tasks.ts';
import {
  findWorkflow,
  insertWorkflow,
  rememberPlan,
  type NewWorkflow,
  type WorkflowRow,
  type WorkflowSettings,
} from '../../db/workflows.ts';
import { expectTaskMs } from '../agents/expect-task.ts';
import { requireTeam } from '../agents/write-team.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { writeRun, type CreatedRun } from '../runs/create-run.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { requireTask } from './read-workflows.ts';
import { checkPlan, checkRequirements, tasksOf, writeTasks, type PlannedSubtask } from './workflow-plan.ts';

interface Asked {
  caller: Caller;
  /** The thread with which the workflow goes on; it begins one of its own without it. */
  threadId?: string | undefined;
  /** Of the workflow's run, shared by all runs below it. */
  budget?: RequestedConfig['budget'];
  traceparent?: string | undefined;
}

interface Requested extends Asked {
  idempotency: IdempotentRequest;
}

export interface WorkflowRequest extends Requested {
  name: string;
  agentId?: string | undefined;
  teamId?: string | undefined;
  input: TaskInput;
  definition?: { subtasks: PlannedSubtask[]; success_criteria?: string | undefined } | undefined;
  settings: WorkflowSettings;
}

/**
 * Starts a workflow; returns it as `present` shows it. Throws 422 for an invalid definition, 404 for an unknown agent,
 * 409 for a deprecated one.
 */
export async function createWorkflow<T>(
  context: Context,
  request: WorkflowRequest,
  present: (row: WorkflowRow) => T,
): Promise<IdempotentAnswer<T>> {
  if (request.definition) checkPlan(request.definition.subtasks);
  return announced(context, request, async (tx) => {
    const { id, written } = await writeRequested(context, tx, request);
    const row = await findWorkflow(tx, id);
    if (!row) throw new Error('An inserted workflow did not come back.');
    return { body: present(row), written };
  });
}

/**
 * As `createWorkflow`, in the caller's transaction and for a checked plan; the caller announces `written` after the
 * commit.
 */
export async function writeRequested(
  context: Context,
  tx: Tx,
  request: Omit<WorkflowRequest, 'idempotency'>,
): Promise<WrittenWorkflow> {
  const { name, teamId = null, input, definition } = request;
  const team = teamId === null ? undefined : await requireTeam(tx, request.caller, teamId);
  const agentId = request.agentId ?? team?.supervisor_agent_id ?? null;
  const plan = definition?.subtasks ?? (team ? planOfTeam(team, input.user_query ?? name) : []);
  if (team && plan.length === 0) throw conflict('The team has no members.');
  const successCriteria = definition?.success_criteria ?? null;
  // Noted here, since the team may be changed or deleted before the answer.
  const settings = { ...request.settings, ...(team && { by_vote: definition === undefined && isVoting(team) }) };
  return writeWorkflow(context, tx, {
    request,
    made: { name, agentId, teamId, input, settings, successCriteria },
    isListed: true,
    tasks: (owner) => tasksOf(tx, owner, { subtasks: plan, isOfTeam: definition === undefined, team }),
  });
}

interface TaskRequest extends Requested {
  description: string;
  /** The workflow to add it to; without one it gets its own. */
  workflowId?: string | undefined;
  /** The task that this one is a part of. */
  parentTaskId?: string | undefined;
  input: TaskInput | undefined;
  requirements: TaskRequirements & { deadline?: string | undefined };
}

/**
 * Submits a task; returns it as `present` shows it. Throws 404 for an unknown workflow or parent, 409 for a workflow
 * that has ended, 422 for one that has as many tasks as it may, or for unknown agents among the requirements.
 */
export async function submitTask<T>(
  context: Context,
  request: TaskRequest,
  present: (row: TaskRow, doneAt: Date) => T,
): Promise<IdempotentAnswer<T>> {
  return announced(context, request, async (tx) => {
    const id = newId();
    const { workflowId, parentTaskId } = request;
    if (parentTaskId !== undefined) await requireTask(tx, request.caller, parentTaskId);
    await checkRequirements(tx, request.caller.workspaceId, request.requirements);
    const written =
      workflowId === undefined
        ? await startAlone(context, tx, { request, id })
        : await addTo(tx, { request, id, workflowId });
    const row = await findTask(tx, id);
    if (!row) throw new Error('An inserted task did not come back.');
    const takesMs = Math.min(await expectTaskMs(tx, request.caller, request.requirements), LIMITS.waitSeconds * 1000);
    const expectedMs = row.created_at.getTime() + takesMs;
    const doneAt = new Date(Math.min(expectedMs, row.deadline?.getTime() ?? Infinity));
    return { body: present(row, doneAt), written };
  });
}

async function announced<T>(
  context: Context,
  { idempotency }: Requested,
  work: (tx: Tx) => Promise<{ body: T; written: Announcement }>,
): Promise<IdempotentAnswer<T>> {
  let written: Announcement | undefined;
  const answer = await idempotently<T>(context, idempotency, async (tx) => {
    const made = await work(tx);
    written = made.written;
    return { status: 202, body: made.body };
  });
  if (written) announceAppended(context, written);
  return answer;
}

const ALONE: WorkflowSettings = { on_subtask_failure: 'fail', execution: 'eager', max_replans: 0 };

async function startAlone(
  context: Context,
  tx: Tx,
  { request, id }: { request: TaskRequest; id: string },
): Promise<Announcement> {
  const made = { name: '', agentId: null, teamId: null, input: {}, settings: ALONE, successCriteria: null };
  const tasks = async (owner: Owner) => [newTask(request, { ...owner, id, place: 0 })];
  return (await writeWorkflow(context, tx, { request, made, isListed: false, tasks })).written;
}

async function addTo(
  tx: Tx,
  { request, id, workflowId }: { request: TaskRequest; id: string; workflowId: string },
): Promise<Announcement> {
  const { tenantId, workspaceId } = request.caller;
  const workflow = await findWorkflow(tx, workflowId);
  if (workflow?.workspace_id !== workspaceId) throw notFound('The workflow');
  const appended = await appendIn(tx, { tenantId, runId: workflowId }, async (run) => {
    if (isTerminal(run.status)) throw conflict(`The workflow is ${run.status} already.`);
    const names = await listTaskNames(tx, workflowId);
    const place = names.length;
    const most = LIMITS.subtasksPerPlan;
    if (place >= most) throw impossible(`The workflow has ${most} tasks already, which is as many as it may.`);
    const task = newTask(request, { tenantId, workspaceId, workflowId, id, place });
    const [free] = withFreeIds([{ id: task.name, dependencies: [] }], names);
    const planned = await writeTasks(tx, [{ ...task, name: free?.id ?? task.name }], 0);
    const payload = { tenantId, runId: workflowId };
    return {
      events: [{ ...planned, actor: 'user', turn_id: run.open_turn_id ?? undefined }],
      outbox: [{ id: newId(), queue: SUBTASKS.name, at_position: true, payload }],
    };
  });
  if (!appended) throw new Error('a task was added to nothing');
  return { ...appended, runId: workflowId };
}

interface Owner {
  tenantId: string;
  workspaceId: string;
  workflowId: string;
}

function newTask(
  { caller, description, input, requirements, parentTaskId }: TaskRequest,
  of: Owner & { id: string; place: number },
): NewTask {
  const { deadline = null, ...required } = requirements;
  const own = { name: `task-${of.place + 1}`, description, input: input ?? null, requirements: required, parentTaskId };
  return { ...of, ...own, agentId: null, dependencies: [], deadline, requestedBy: caller.keyId };
}

interface WrittenWorkflow {
  id: string;
  body: CreatedRun;
  written: Announcement;
}

interface NewWorkflowRun {
  request: Asked;
  made: Omit<NewWorkflow, 'id' | 'tenantId' | 'workspaceId' | 'isListed'>;
  isListed: boolean;
  tasks: (owner: Owner) => Promise<NewTask[]>;
}

/** Writes the run, its workflow and its tasks; the plan is the log's next event. */
async function writeWorkflow(
  context: Context,
  tx: Tx,
  { request, made, isListed, tasks }: NewWorkflowRun,
): Promise<WrittenWorkflow> {
  const { caller, budget, threadId, traceparent } = request;
  const { tenantId, workspaceId } = caller;
  const created = await writeRun(context, tx, {
    tenantId,
    workspaceId,
    kind: 'workflow',
    agentId: made.agentId ?? BUILTIN_PLANNER.id,
    ...(made.agentId === null && { start: { ...BUILTIN_PLANNER, tools: [] } }),
    threadId,
    input: { message: made.input.user_query ?? made.name },
    config: { budget },
    mayRaiseAutonomy: false,
    requestedBy: caller.keyId,
    traceparent,
  });
  const { body } = created;
  const id = body.run_id;
  const inserted = insertWorkflow(tx, { ...made, id, tenantId, workspaceId, isListed });
  const [, rows] = await Promise.all([inserted, tasks({ tenantId, workspaceId, workflowId: id })]);
  // Without a plan, the planner is asked for one.
  if (rows.length === 0) return { id, body, written: created.written };
  const [planned] = await Promise.all([
    appendIn(tx, { tenantId, runId: id }, async (run) => ({
      events: [{ ...(await writeTasks(tx, rows, 0)), actor: 'user', turn_id: run.open_turn_id ?? undefined }],
    })),
    rememberPlan(tx, id, { criteria: '', gaps: [] }),
  ]);
  if (!planned) throw new Error('a plan was written nowhere');
  return { id, body, written: { ...created.written, seq: planned.seq } };
}
