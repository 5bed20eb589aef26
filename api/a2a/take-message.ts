/** Handles an A2A message: it begins a task, continues one, or carries a person's decision. */
import type { Message, SendMessageRequest } from '@a2a-js/sdk';
import { ContentTypeNotSupportedError, TaskNotFoundError } from '@a2a-js/sdk/errors';
import { z } from 'zod';
import { badRequest, forbidden } from '../../core/errors.ts';
import { digestOf } from '../../core/ids.ts';
import { hasScope } from '../../core/scopes.ts';
import { decideApproval } from '../../modules/approvals/decide-approval.ts';
import { requireApproval } from '../../modules/approvals/read-approvals.ts';
import { createRun } from '../../modules/runs/create-run.ts';
import { requireReadableRun, type RunView } from '../../modules/runs/read-runs.ts';
import { sayToRun } from '../../modules/runs/say-to-run.ts';
import { afterHandoff } from '../../modules/sessions/after-handoff.ts';
import { decisionBody, toDecision } from '../runs/decision-schema.ts';
import { checkConfig, putConfig } from './push-configs.ts';
import type { A2aRequest } from './request.ts';

/** Returns the run that the message is about. Throws a `DroverError`, or an SDK error. */
export async function takeMessage(request: A2aRequest, sent: SendMessageRequest): Promise<string> {
  const push = sent.configuration?.taskPushNotificationConfig;
  if (push) checkConfig(push);
  const runId = await take(request, sent);
  // Repeatable: a repeated message has the same configuration.
  if (push) await putConfig(request, runId, { ...push, id: push.id || (sent.message?.messageId ?? '') });
  return runId;
}

/** A task's run. Throws `TaskNotFoundError` for a malformed id. */
export function runOf(taskId: string): string {
  if (z.uuid().safeParse(taskId).success) return taskId.toLowerCase();
  throw new TaskNotFoundError(`There is no task "${taskId}".`);
}

const REUSED = 'Another message was sent with this messageId; a new message needs one of its own.';

async function take(request: A2aRequest, { message }: SendMessageRequest): Promise<string> {
  if (!message) throw badRequest('A message is needed.');
  const { context, caller, agent, traceparent, replaced } = request;
  const { tenantId, workspaceId, keyId: requestedBy } = caller;
  const decided = await decide(request, message);
  if (decided !== undefined) return decided;
  const text = { message: textOf(message) };
  const input = { ...text, message_id: message.messageId, ...(replaced !== undefined && { replaced }) };
  // Clients may number messages separately for each task.
  const said = [
    workspaceId,
    agent.id,
    message.taskId.toLowerCase(),
    message.contextId.toLowerCase(),
    message.messageId,
  ];
  const key = message.messageId === '' ? undefined : digestOf(said);
  const idempotency = { tenantId, route: 'A2A SendMessage', key, body: { input: text }, reused: REUSED };
  if (message.taskId !== '') {
    const runId = runOf(message.taskId);
    const run = await requireTask(request, message, runId);
    await sayToRun(context, { caller, run, input, traceparent, idempotency });
    return runId;
  }
  const threadId = message.contextId === '' ? undefined : z.uuid().toLowerCase().safeParse(message.contextId).data;
  if (message.contextId !== '' && threadId === undefined) throw badRequest('A contextId is one that a task has had.');
  const begun = {
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
  };
  const created = await afterHandoff(context, tenantId, () => createRun(context, begun));
  return created.body.run_id;
}

/** Requires a task of the agent that the caller may read and that the message names. Throws 404, 400 for another context. */
async function requireTask(
  { context, caller, agent }: A2aRequest,
  { taskId, contextId }: Message,
  runId: string,
): Promise<RunView> {
  if (taskId !== '' && runOf(taskId) !== runId)
    throw new TaskNotFoundError(`The approval is not of the task "${taskId}".`);
  const run = await context.db.withTenant(caller.tenantId, (tx) =>
    requireReadableRun(tx, caller, { run: runId, id: agent.id }),
  );
  if (contextId !== '' && contextId.toLowerCase() !== run.thread_id)
    throw badRequest('The contextId is not that of the task.');
  return run;
}

const decision = decisionBody.extend({ approval_id: z.uuid().toLowerCase() });
const isDecision = z.looseObject({ approval_id: z.unknown().refine((id) => id !== undefined) });

/** Applies a decision in a data part with an `approval_id`; returns its run. */
async function decide(request: A2aRequest, message: Message): Promise<string | undefined> {
  const { context, caller } = request;
  const data = message.parts.flatMap(({ content }): unknown[] => (content?.$case === 'data' ? [content.value] : []));
  const given = data.find((value) => isDecision.safeParse(value).success);
  if (given === undefined) return undefined;
  const parsed = decision.safeParse(given);
  if (!parsed.success) throw badRequest(`The decision in message.parts: ${z.prettifyError(parsed.error)}`);
  if (!hasScope(caller.scopes, 'approvals:write')) throw forbidden('Approving needs the scope approvals:write.');
  const { approval_id: id, ...body } = parsed.data;
  const { run_id: runId } = await context.db.withTenant(caller.tenantId, (tx) => requireApproval(tx, caller, { id }));
  if (runId === null) throw badRequest('The approval is of no task.');
  await requireTask(request, message, runId);
  const ref = { tenantId: caller.tenantId, id, workspaceId: caller.workspaceId, by: caller };
  await decideApproval(context, ref, toDecision(body, 'message.parts'));
  return runId;
}

function textOf({ parts }: Message): string {
  const kinds = parts.map(({ content }) => content?.$case);
  if (kinds.length === 0 || kinds.includes(undefined)) throw badRequest('A message has parts, each with its content.');
  const texts = parts.map(({ content }) => (content?.$case === 'text' ? content.value : undefined));
  if (texts.includes(undefined)) throw new ContentTypeNotSupportedError('This agent takes text.');
  const text = texts.join('\n');
  if (text.trim() === '') throw badRequest('The message is empty.');
  return text;
}
