/** A2A's operations (protocol 1.0) over runs: a task is a run, a context its thread. */
import { TaskState, type Message, type SendMessageRequest, type StreamResponse, type Task } from '@a2a-js/sdk';
import { TaskNotCancelableError, TaskNotFoundError } from '@a2a-js/sdk/errors';
import type { A2ARequestHandler } from '@a2a-js/sdk/server';
import { z } from 'zod';
import { badRequest, DroverError, forbidden } from '../../core/errors.ts';
import type { EventType } from '../../core/events.ts';
import { digestOf } from '../../core/ids.ts';
import { LIMITS } from '../../core/limits.ts';
import { hasScope } from '../../core/scopes.ts';
import { decideApproval } from '../../modules/approvals/decide-approval.ts';
import { createRun } from '../../modules/runs/create-run.ts';
import { cancelRun } from '../../modules/runs/end-run.ts';
import { postTurn } from '../../modules/runs/post-turn.ts';
import { readTurns, requireReadableRun } from '../../modules/runs/read-runs.ts';
import { streamRun } from '../../modules/runs/stream-run.ts';
import { decisionBody, toDecision } from '../runs/decision-schema.ts';
import { agentCard } from './agent-card.ts';
import { listTasks } from './list-tasks.ts';
import { pushOperations, putConfig } from './push-configs.ts';
import type { A2aRequest } from './request.ts';
import { SETTLED, taskOf } from './task.ts';

/** The operations for one agent and one caller. They throw a `DroverError`, or an error of the SDK's. */
export function a2aOperations(request: A2aRequest): A2ARequestHandler {
  return {
    getAgentCard: () => Promise.resolve(agentCard(request.agent, request.url)),
    getAuthenticatedExtendedAgentCard: () => Promise.resolve(agentCard(request.agent, request.url)),
    async sendMessage(params) {
      const runId = await say(request, params);
      if (params.configuration?.returnImmediately !== true) await untilSettled(request, runId);
      return readTask(request, runId, params.configuration?.historyLength);
    },
    async *sendMessageStream(params) {
      yield* follow(request, await say(request, params));
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
      yield* follow(request, runOf(id));
    },
    listTasks: (params) => listTasks(request, params),
    ...pushOperations(request),
  };
}

/** What has ended in another way has an error of the protocol's own. */
function notCancelable(error: unknown): never {
  if (error instanceof DroverError && error.code === 'conflict') throw new TaskNotCancelableError(error.message);
  throw error;
}

function runOf(taskId: string): string {
  if (z.uuid().safeParse(taskId).success) return taskId.toLowerCase();
  throw new TaskNotFoundError(`There is no task "${taskId}".`);
}

/** Takes a message: the first of a task, an answer to what a task waits for, or a person's decision as data. */
async function say(request: A2aRequest, sent: SendMessageRequest): Promise<string> {
  const runId = await take(request, sent);
  const push = sent.configuration?.taskPushNotificationConfig;
  // A message that is sent again says the same.
  if (push) await putConfig(request, runId, { ...push, id: push.id || (sent.message?.messageId ?? '') });
  return runId;
}

async function take(request: A2aRequest, { message }: SendMessageRequest): Promise<string> {
  if (!message) throw badRequest('A message is needed.');
  const { context, caller, agent, traceparent } = request;
  const { tenantId, workspaceId, keyId: requestedBy } = caller;
  const decided = await decide(request, message);
  if (decided !== undefined) return decided;
  const input = { message: textOf(message) };
  // Clients that count number the messages of each task anew.
  const said = [
    workspaceId,
    agent.id,
    message.taskId.toLowerCase(),
    message.contextId.toLowerCase(),
    message.messageId,
  ];
  const key = message.messageId === '' ? undefined : digestOf(said);
  const idempotency = { tenantId, route: 'A2A SendMessage', key, body: { input } };
  if (message.taskId !== '') {
    const runId = runOf(message.taskId);
    await readTask(request, runId);
    await postTurn(context, { tenantId, agentId: agent.id, runId, input, requestedBy, traceparent, idempotency });
    return runId;
  }
  const threadId = message.contextId === '' ? undefined : z.uuid().toLowerCase().safeParse(message.contextId).data;
  if (message.contextId !== '' && threadId === undefined) throw badRequest('A contextId is one that a task has had.');
  const created = await createRun(context, {
    tenantId,
    workspaceId,
    agentId: agent.id,
    threadId,
    input,
    config: {},
    mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
    requestedBy,
    traceparent,
    idempotency,
  });
  return created.body.run_id;
}

const decision = decisionBody.extend({ approval_id: z.uuid().toLowerCase() });

/** A part of data with an `approval_id` is a decision on it; answers its run. */
async function decide({ context, caller }: A2aRequest, { parts }: Message): Promise<string | undefined> {
  const data = parts.flatMap(({ content }): unknown[] => (content?.$case === 'data' ? [content.value] : []));
  const parsed = data.map((value) => decision.safeParse(value)).find(({ success }) => success);
  if (!parsed?.success) return undefined;
  if (!hasScope(caller.scopes, 'approvals:write')) throw forbidden('Approving needs the scope approvals:write.');
  const { approval_id: id, ...body } = parsed.data;
  const ref = { tenantId: caller.tenantId, id, workspaceId: caller.workspaceId, by: caller };
  const { run_id: runId } = await decideApproval(context, ref, toDecision(body, 'message.parts'));
  return runId;
}

function textOf({ parts }: Message): string {
  const texts = parts.map(({ content }) => (content?.$case === 'text' ? content.value : undefined));
  if (texts.length === 0 || texts.includes(undefined)) throw badRequest('This agent takes text.');
  const text = texts.join('\n');
  if (text.trim() === '') throw badRequest('The message is empty.');
  return text;
}

const LAST_TURNS = 50;

/** A task that the caller may see. `historyLength` counts messages, a turn's input and answer; 0 is none. Throws 404. */
async function readTask({ context, caller, agent }: A2aRequest, run: string, historyLength?: number): Promise<Task> {
  const path = { run, id: agent.id };
  const task = await context.db.withTenant(caller.tenantId, async (tx) => {
    const row = await requireReadableRun(tx, caller, path);
    const after = Math.max(0, row.turn_count - LAST_TURNS);
    return taskOf(row, await readTurns(tx, caller, { path, after, limit: LAST_TURNS }));
  });
  if (historyLength === undefined) return task;
  return { ...task, history: historyLength > 0 ? task.history.slice(-historyLength) : [] };
}

const STEPS: readonly EventType[] = ['model.responded', 'tool.started', 'tool.succeeded', 'tool.failed'];
/** What may settle a task, or end a wait. */
const TURNING_POINTS: readonly EventType[] = [
  // What a run waits for shows once it has become waiting.
  'run.status_changed',
  'turn.completed',
  'turn.failed',
  'run.completed',
  'run.failed',
  'run.cancelled',
];

/** Ends when nothing more comes before somebody says something; the work goes on where the client has left. */
async function* follow(request: A2aRequest, run: string): AsyncGenerator<StreamResponse, void, undefined> {
  const { context, caller, gone } = request;
  const first = await readTask(request, run);
  yield { payload: { $case: 'task', value: first } };
  if (SETTLED.includes(stateOf(first))) return;
  const after = Number(first.metadata?.['last_seq'] ?? 0);
  const sent = new Set(first.artifacts.map(({ artifactId }) => artifactId));
  const events = streamRun(context, {
    tenantId: caller.tenantId,
    runId: run,
    after,
    types: [...STEPS, ...TURNING_POINTS],
    signal: gone,
  });
  const { id: taskId, contextId, status: working } = first;
  for await (const item of events) {
    if (item.kind !== 'logged') continue;
    const ids = { taskId, contextId, metadata: { step: item.event.step ?? 0, event: item.event.type } };
    if (STEPS.some((step) => step === item.event.type)) {
      yield { payload: { $case: 'statusUpdate', value: { ...ids, status: working } } };
      continue;
    }
    const now = await readTask(request, run, 0);
    for (const artifact of now.artifacts.filter(({ artifactId }) => !sent.has(artifactId))) {
      sent.add(artifact.artifactId);
      yield { payload: { $case: 'artifactUpdate', value: { ...ids, artifact, append: false, lastChunk: true } } };
    }
    yield { payload: { $case: 'statusUpdate', value: { ...ids, status: now.status } } };
    if (SETTLED.includes(stateOf(now))) return;
  }
}

const stateOf = ({ status }: Task) => status?.state ?? TaskState.TASK_STATE_UNSPECIFIED;

/** Half an hour at most; the task is what it is then. */
async function untilSettled(request: A2aRequest, run: string): Promise<void> {
  const signal = AbortSignal.any([request.gone, AbortSignal.timeout(LIMITS.mcpWaitSeconds * 1000)]);
  for await (const update of follow({ ...request, gone: signal }, run)) void update;
}
