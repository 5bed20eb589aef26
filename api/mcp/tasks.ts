/** Agent calls as tasks (specification 2025-11-25): a task is a run, which goes on whether or not anybody asks for it. */
import type { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CancelTaskRequestSchema,
  ErrorCode,
  GetTaskPayloadRequestSchema,
  GetTaskRequestSchema,
  ListTasksRequestSchema,
  McpError,
  RELATED_TASK_META_KEY,
  type Task,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import type { RunStatus } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { cancelRun } from '../../modules/runs/end-run.ts';
import { changedAt, readRuns, requireReadableRun, type RunView } from '../../modules/runs/read-runs.ts';
import { cursorParam, nextOf } from '../kit/paging.ts';
import { presentRun } from '../runs/schemas.ts';
import { unlessCancelled } from './cancelled-calls.ts';
import { awaitRun } from './run-tools.ts';
import type { McpRequest } from './tool-kind.ts';

/** The server's task capabilities. */
export const TASKS = { list: {}, cancel: {}, requests: { tools: { call: {} } } };

const POLL_MS = 1000;
const PAGE = 50;

/** Registers the handlers of task requests. */
export function serveTasks(server: Server, request: McpRequest): void {
  server.setRequestHandler(GetTaskRequestSchema, ({ params: { taskId } }) => readTask(request, taskId));
  server.setRequestHandler(ListTasksRequestSchema, ({ params }) => listTasks(request, params?.cursor));
  server.setRequestHandler(GetTaskPayloadRequestSchema, async ({ params: { taskId } }, { requestId: id }) => {
    await readTask(request, taskId);
    const wanted = { run: taskId };
    const call = { ...request, id, hangUp: () => server.close() };
    const result = await unlessCancelled(call, (gone) =>
      awaitRun({ ...request, gone, onProgress: undefined }, wanted, LIMITS.mcpWaitSeconds),
    );
    return { ...result, _meta: { [RELATED_TASK_META_KEY]: { taskId } } };
  });
  server.setRequestHandler(CancelTaskRequestSchema, async ({ params: { taskId } }) => {
    const { status } = await readTask(request, taskId);
    if (status === 'cancelled') throw new McpError(ErrorCode.InvalidParams, 'The task is cancelled already.');
    const { context, caller } = request;
    const by = { tenantId: caller.tenantId, runId: taskId, by: caller };
    await cancelRun(context, by, 'cancelled by the MCP client').catch((error: unknown) => {
      if (!(error instanceof DroverError) || error.status !== 409) throw error;
      throw new McpError(ErrorCode.InvalidParams, error.message);
    });
    return readTask(request, taskId);
  });
}

/** A page of runs, newest first, of a key that may read its workspace's. */
async function listTasks({ context, caller }: McpRequest, cursor: string | undefined) {
  if (!hasScope(caller.scopes, 'runs:read'))
    throw new McpError(ErrorCode.InvalidParams, 'Tasks are listed for keys with the scope "runs:read".');
  const before = cursorParam().optional().safeParse(cursor);
  if (!before.success) throw new McpError(ErrorCode.InvalidParams, 'The cursor is none of this list.');
  const filter = { before: before.data, limit: PAGE };
  const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readRuns(tx, caller, filter));
  const { next_cursor: nextCursor } = nextOf(rows, more, (row) => row.id);
  return { tasks: rows.map((row) => taskOf(row)), ...(nextCursor !== undefined && { nextCursor }) };
}

/** A run of the caller's workspace as a task. A key without the scope `runs:read` sees only runs that it requested. */
export async function readTask({ context, caller }: McpRequest, id: string): Promise<Task> {
  const found = await context.db
    .withTenant(caller.tenantId, (tx) => requireReadableRun(tx, caller, { run: z.uuid().parse(id) }))
    .catch((error: unknown) => {
      if (error instanceof z.ZodError || (error instanceof DroverError && error.status === 404))
        throw new McpError(ErrorCode.InvalidParams, 'There is no such task.');
      throw error;
    });
  return taskOf(found);
}

/** Waits for the client or a person, not for time or other systems. */
const ASKING: readonly string[] = ['turn', 'user', 'approval', 'client_tools'];

function taskOf(row: RunView): Task {
  const run = presentRun(row);
  const asked = [...(run.waits ?? []), ...(run.waiting_for ? [run.waiting_for] : [])].find(({ type }) =>
    ASKING.includes(type),
  );
  const says = run.error?.message ?? (asked && `The run waits: ${JSON.stringify(asked)}`);
  return {
    taskId: run.run_id,
    status: statusOf(run.status, asked !== undefined),
    ...(says !== undefined && { statusMessage: says }),
    // Tasks do not expire apart from their runs.
    ttl: null,
    createdAt: run.created_at,
    lastUpdatedAt: changedAt(row),
    pollInterval: POLL_MS,
  };
}

function statusOf(status: RunStatus, isAsked: boolean): Task['status'] {
  if (status === 'completed' || status === 'failed' || status === 'cancelled') return status;
  return isAsked ? 'input_required' : 'working';
}
