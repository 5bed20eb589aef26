/** A2A's operations (protocol 1.0) over runs: a task is a run, a context its thread. */
import { TaskState, type StreamResponse, type Task, type TaskStatus } from '@a2a-js/sdk';
import { TaskNotCancelableError, UnsupportedOperationError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { DroverError } from '../../core/errors.ts';
import type { EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { cancelRun } from '../../modules/runs/end-run.ts';
import { readLastTurns, requireReadableRun } from '../../modules/runs/read-runs.ts';
import { streamRun } from '../../modules/runs/stream-run.ts';
import { listHandedOn } from '../../modules/workflows/read-handoffs.ts';
import { agentCard } from './agent-card.ts';
import { listTasks } from './list-tasks.ts';
import { pushOperations } from './push-configs.ts';
import type { A2aRequest } from './request.ts';
import { runOf, takeMessage } from './take-message.ts';
import { ENDED, SETTLED, taskOf } from './task.ts';

/** The operations for one agent and caller. They throw a `DroverError`, or an SDK error. */
export function a2aOperations(request: A2aRequest): A2ARequestHandler {
  return {
    getAgentCard: () => Promise.resolve(agentCard(request.agent, request.url)),
    getAuthenticatedExtendedAgentCard: () =>
      Promise.reject(new UnsupportedOperationError('The card that everybody is shown is the whole one.')),
    async sendMessage(params) {
      const runId = await takeMessage(request, params);
      if (params.configuration?.returnImmediately !== true) await untilSettled(request, runId);
      return readTask(request, runId, params.configuration?.historyLength);
    },
    async *sendMessageStream(params) {
      yield* follow(request, await takeMessage(request, params));
    },
    getTask: ({ id, historyLength }) => readTask(request, runOf(id), historyLength),
    async cancelTask({ id }) {
      const { context, caller } = request;
      const runId = runOf(id);
      await readTask(request, runId);
      await cancelRun(context, { tenantId: caller.tenantId, runId, by: caller }, 'cancelled over A2A').catch(
        notCancelable,
      );
      return readTask(request, runId);
    },
    async *resubscribe({ id }) {
      const runId = runOf(id);
      const { status } = await readTask(request, runId, 0);
      if (status && ENDED.includes(status.state))
        throw new UnsupportedOperationError('The task has ended: GetTask shows how.');
      yield* follow(request, runId);
    },
    listTasks: (params) => listTasks(request, params),
    ...pushOperations(request),
  };
}

/** A conflict, as for a task that has ended, becomes the protocol's own error. */
function notCancelable(error: unknown): never {
  if (error instanceof DroverError && error.code === 'conflict') throw new TaskNotCancelableError(error.message);
  throw error;
}

const LAST_TURNS = 50;

/**
 * A task that the caller may read. `historyLength` counts messages, each turn's input and answer; 0 for none. Throws
 * 404.
 */
async function readTask({ context, caller, agent }: A2aRequest, runId: string, historyLength?: number): Promise<Task> {
  const path = { run: runId, id: agent.id };
  const task = await context.db.withTenant(caller.tenantId, async (tx) => {
    const row = await requireReadableRun(tx, caller, path);
    const [turns, next] = await Promise.all([readLastTurns(tx, row, LAST_TURNS), listHandedOn(tx, [row.id])]);
    return taskOf(row, turns, next.get(row.id));
  });
  if (historyLength === undefined) return task;
  return { ...task, history: historyLength > 0 ? task.history.slice(-historyLength) : [] };
}

const STEPS: readonly EventType[] = ['model.responded', 'tool.started', 'tool.succeeded', 'tool.failed'];
/** Events that may settle a task or end a wait. */
const TURNING_POINTS: readonly EventType[] = [
  // A run's wait shows after this change of its status.
  'run.status_changed',
  'turn.completed',
  'turn.failed',
  'run.completed',
  'run.failed',
  'run.cancelled',
];

/** Streams a task until it settles; its work goes on if the client leaves. */
async function* follow(request: A2aRequest, runId: string): AsyncGenerator<StreamResponse, void, undefined> {
  const { context, caller, gone } = request;
  const first = await readTask(request, runId);
  yield { payload: { $case: 'task', value: first } };
  if (SETTLED.includes(stateOf(first))) return;
  const after = Number(first.metadata?.['last_seq'] ?? 0);
  const sent = new Set(first.artifacts.map(({ artifactId }) => artifactId));
  const events = streamRun(context, {
    tenantId: caller.tenantId,
    runId,
    after,
    types: [...STEPS, ...TURNING_POINTS],
    signal: gone,
  });
  const { id: taskId, contextId } = first;
  let { status } = first;
  for await (const item of events) {
    if (item.kind !== 'logged') continue;
    const ids = { taskId, contextId, metadata: { step: item.event.step ?? 0, event: item.event.type } };
    if (STEPS.some((step) => step === item.event.type)) {
      status = status && since(status, { ...status, timestamp: item.event.occurred_at.toISOString() });
      yield { payload: { $case: 'statusUpdate', value: { ...ids, status } } };
      continue;
    }
    const now = await readTask(request, runId, 0);
    for (const artifact of now.artifacts.filter(({ artifactId }) => !sent.has(artifactId))) {
      sent.add(artifact.artifactId);
      yield { payload: { $case: 'artifactUpdate', value: { ...ids, artifact, append: false, lastChunk: true } } };
    }
    status = since(status, now.status);
    yield { payload: { $case: 'statusUpdate', value: { ...ids, status } } };
    if (SETTLED.includes(stateOf(now))) return;
  }
}

/** Keeps timestamps from going back: a task as read may be ahead of the events being told. */
function since(before: TaskStatus | undefined, status: TaskStatus | undefined): TaskStatus | undefined {
  const [first, last] = [before?.timestamp ?? '', status?.timestamp ?? ''];
  return status && { ...status, timestamp: first > last ? first : last };
}

const stateOf = ({ status }: Task) => status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;

/** Waits half an hour at most. */
async function untilSettled(request: A2aRequest, runId: string): Promise<void> {
  const signal = AbortSignal.any([request.gone, AbortSignal.timeout(LIMITS.mcpWaitSeconds * 1000)]);
  for await (const update of follow({ ...request, gone: signal }, runId)) void update;
}
