/** Sessions: a user talks with an agent, and decides on its plans (docs/sessions.md). */
import { z } from 'zod';
import { badRequest } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { chatRates, executeRates } from '../../core/rate-limits.ts';
import { isAsked, SESSION_STATUSES } from '../../core/session-status.ts';
import { highestRisk, RISK_LEVELS } from '../../core/tool.ts';
import { chat } from '../../modules/sessions/chat.ts';
import { executeCallBatch, refineCallBatch, rejectCallBatch } from '../../modules/sessions/decide-call-batch.ts';
import { deleteSession, interruptSession } from '../../modules/sessions/end-session.ts';
import type { SessionView } from '../../modules/sessions/session.ts';
import { agentIdParam, threadIdParam } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import { presentWaiting, presentWaits, waitingFor } from '../runs/waiting.ts';
import { extras } from '../threads/schemas.ts';
import { streamRoute } from './stream-route.ts';

const status = z.enum(SESSION_STATUSES);
const userId = z.string().min(1).max(200);

const chatBody = z
  .strictObject({
    message: z.string().min(1).max(LIMITS.chatMessageChars),
    session_id: threadIdParam.nullish().describe('Absent or null: a new session.'),
    agent_id: agentIdParam
      .optional()
      .describe(
        "Absent: the workspace's only active agent. With `session_id`: the agent that it was begun with, or the one that it was handed to.",
      ),
    user_id: userId.optional(),
    character_id: z
      .union([userId, z.int().min(1)])
      .optional()
      .describe('Another name of `user_id`.'),
    autonomy_level: z.int().min(0).max(3).optional(),
    mode: z.enum(['queue', 'steer', 'reject']).default('queue').describe('What becomes of it while a turn is open.'),
    context: extras.optional(),
  })
  .meta({ id: 'ChatRequest' });

const sendMessage = defineRoute({
  method: 'post',
  path: '/agent/chat',
  access: 'runs:write',
  threadToken: { scope: 'answer' },
  summary: 'Send a message to a session, or begin one',
  idempotent: true,
  rates: (caller, body) => chatRates(caller, userIn(body)),
  body: chatBody,
  responses: { 202: z.object({ session_id: z.uuid(), status, plan_id: z.uuid().optional() }) },
  async handle({ caller, body, context, idempotency, ctx, app }) {
    const user = userOf(body);
    const answer = await chat(context, {
      caller,
      message: body.message,
      replaced: ctx.state.replaced,
      sessionId: body.session_id ?? undefined,
      userId: user,
      agentId: body.agent_id,
      autonomyLevel: body.autonomy_level,
      context: body.context,
      mode: body.mode,
      traceparent: ctx.state.traceparent,
      idempotency,
    });
    app.liveSessions.forget({ caller, sessionId: answer.body.session_id });
    return answer;
  },
});

const namesUser = z.looseObject({
  user_id: userId.optional().catch(undefined),
  character_id: z
    .union([userId, z.int().min(1)])
    .optional()
    .catch(undefined),
});

/**
 * The user to count a message for, even if it is invalid. Messages without one count together, as '', which is no
 * user's id.
 */
function userIn(body: unknown): string {
  const { user_id, character_id } = namesUser.safeParse(body).data ?? {};
  return String(user_id ?? character_id ?? '');
}

function userOf({ user_id, character_id }: z.output<typeof chatBody>): string {
  const given = user_id ?? character_id;
  if (character_id !== undefined && String(character_id) !== String(given)) {
    const message = 'is another name of user_id, and names another user';
    throw badRequest(`body.character_id ${message}.`, [{ path: 'body.character_id', message }]);
  }
  if (given === undefined)
    throw badRequest('body.user_id is required.', [{ path: 'body.user_id', message: 'is required' }]);
  return String(given);
}

const callBatchRef = { session_id: threadIdParam, plan_id: idParam };
const outcome = z.object({ status, message: z.string() });
/** By id only: requests with a name, of which a session may have had several, count together. */
const namesSession = z.looseObject({ session_id: idParam });

const execute = defineRoute({
  method: 'post',
  path: '/agent/execute',
  access: 'approvals:write',
  threadToken: { scope: 'answer' },
  summary: 'Approve the pending plan and carry it out',
  rates: (caller, body) => executeRates(caller, namesSession.safeParse(body).data?.session_id ?? ''),
  body: z.strictObject(callBatchRef),
  responses: { 200: outcome.extend({ result: z.string().optional() }) },
  async handle({ caller, body, context, app }) {
    const ref = { caller, sessionId: body.session_id, callBatchId: body.plan_id };
    const executed = await executeCallBatch(context, ref);
    app.liveSessions.forget(ref);
    return { status: 200, body: executed };
  },
});

const reject = defineRoute({
  method: 'post',
  path: '/agent/reject',
  access: 'approvals:write',
  threadToken: { scope: 'answer' },
  summary: 'Refuse the pending plan and end the turn',
  body: z.strictObject({ ...callBatchRef, reason: z.string().max(5000).optional() }),
  responses: { 200: outcome },
  async handle({ caller, body, context, app }) {
    const ref = { caller, sessionId: body.session_id, callBatchId: body.plan_id };
    const now = await rejectCallBatch(context, ref, body.reason);
    app.liveSessions.forget(ref);
    return { status: 200, body: { status: now, message: 'Plan rejected' } };
  },
});

const refine = defineRoute({
  method: 'post',
  path: '/agent/refine',
  access: 'approvals:write',
  threadToken: { scope: 'answer' },
  summary: 'Refuse the pending plan and have another one made',
  body: z.strictObject({ ...callBatchRef, feedback: z.string().min(1).max(5000) }),
  responses: { 202: outcome.extend({ session_id: z.uuid() }) },
  async handle({ caller, body, context, app }) {
    const ref = { caller, sessionId: body.session_id, callBatchId: body.plan_id };
    const now = await refineCallBatch(context, ref, body.feedback);
    app.liveSessions.forget(ref);
    return { status: 202, body: { session_id: body.session_id, status: now, message: 'Plan refined' } };
  },
});

const interrupt = defineRoute({
  method: 'post',
  path: '/agent/interrupt',
  access: 'runs:write',
  threadToken: { scope: 'answer' },
  summary: 'Stop what the session does; a queued message goes on',
  body: z.strictObject({ session_id: threadIdParam }),
  responses: { 200: outcome.extend({ queued_message: z.string().optional() }) },
  async handle({ caller, body, context, app }) {
    const ref = { caller, sessionId: body.session_id };
    const { stopped, status: now, queued } = await interruptSession(context, ref);
    app.liveSessions.forget(ref);
    const message = stopped ? 'Execution stopped' : 'Nothing was being executed';
    return { status: 200, body: { status: now, message, ...(queued !== undefined && { queued_message: queued }) } };
  },
});

const step = z.object({
  tool: z.string(),
  arguments: z.record(z.string(), z.unknown()),
  risk_level: z.enum(RISK_LEVELS),
  tool_call_id: z.uuid(),
});
/** Without fields that change while the run's log does not: live state is cached by log position. */
const sessionWait = waitingFor.omit({ hook_url: true, next_at: true, error: true });
const session = z
  .object({
    id: z.uuid(),
    session_id: z.uuid(),
    agent_id: z.uuid(),
    user_id: z.string().nullable().describe('Null once the thread is erased.'),
    character_id: z.union([z.string(), z.int()]).nullable(),
    autonomy_level: z.int(),
    status,
    archived: z.boolean(),
    run_id: z.uuid().nullable().describe('The newest run.'),
    messages: z
      .array(
        z.object({
          role: z.enum(['user', 'assistant']),
          content: z.string(),
          origin: z.literal('drover').optional().describe('The user has not said it: it tells the agent of a handoff.'),
        }),
      )
      .describe('The last 50. Questions of a turn and their answers are among them.'),
    pending_plan: z
      .object({
        plan_id: z.uuid(),
        purpose: z.string(),
        max_risk_level: z.enum(RISK_LEVELS),
        tool_count: z.int(),
        steps: z.array(step),
      })
      .nullable(),
    waiting_for: sessionWait
      .nullable()
      .describe('What the open turn waits for: a question (`user`), to which the next message is the answer, …'),
    suspended_by: z
      .enum(['tenant', 'agent'])
      .optional()
      .describe('What keeps its run from going on, until that is lifted.'),
    queued_message: z.string().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable().describe('Why the last turn has failed.'),
    context: z.record(z.string(), z.unknown()),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'Session' });

const sessionParams = z.strictObject({ id: threadIdParam });

const get = defineRoute({
  method: 'get',
  path: '/agent/session/:id',
  access: 'runs:read',
  threadToken: { scope: 'read', param: 'id' },
  summary: 'Get a session as it stands now',
  params: sessionParams,
  responses: { 200: session },
  async handle({ caller, params, app }) {
    return { status: 200, body: await app.liveSessions.read({ caller, sessionId: params.id }, present) };
  },
});

function asCharacterId(user: string): string | number | null {
  const number = Number(user);
  return Number.isSafeInteger(number) && String(number) === user ? number : user || null;
}

function present({ state, status: now, messages, queued, waiting }: SessionView): z.input<typeof session> {
  const { session: row, run, pending, error, suspended_by } = state;
  const { id, agent_id, user_id, autonomy_level, context } = row;
  const updated = run && run.updated_at > row.updated_at ? run.updated_at : row.updated_at;
  return {
    id,
    session_id: id,
    agent_id,
    user_id: user_id || null,
    character_id: asCharacterId(user_id),
    autonomy_level,
    status: now,
    archived: row.archived_at !== null,
    run_id: run?.id ?? null,
    messages,
    pending_plan: pending && {
      plan_id: pending.plan_id,
      purpose: pending.purpose,
      max_risk_level: highestRisk(pending.steps.map((each) => each.risk_level)),
      tool_count: pending.steps.length,
      steps: pending.steps,
    },
    waiting_for: waiting ? waitOf(waiting, isAsked(state.facts)) : null,
    ...(suspended_by && { suspended_by }),
    queued_message: queued,
    error: now === 'error' ? error : null,
    context,
    created_at: new Date(row.created_at).toISOString(),
    updated_at: new Date(updated).toISOString(),
  };
}

/** A question comes before other waits: the next message answers it. */
function waitOf(run: NonNullable<SessionView['waiting']>, isQuestion: boolean): z.input<typeof sessionWait> | null {
  const question = isQuestion ? presentWaits(run).find(({ type }) => type === 'user') : undefined;
  const wait = question ?? presentWaiting(run);
  if (!wait) return null;
  const { hook_url: _hook, next_at: _next, error: _error, ...shown } = wait;
  return shown;
}

const remove = defineRoute({
  method: 'delete',
  path: '/agent/session/:id',
  access: 'runs:write',
  summary: 'End a session; what was said stays in the log',
  params: sessionParams,
  responses: { 200: z.object({ message: z.string(), archived: z.boolean() }) },
  async handle({ caller, params, context, app }) {
    const ref = { caller, sessionId: params.id };
    await deleteSession(context, ref);
    app.liveSessions.forget(ref);
    return { status: 200, body: { message: 'Session deleted', archived: true } };
  },
});

export const SESSION_ROUTES: readonly Route[] = [
  sendMessage,
  execute,
  reject,
  refine,
  interrupt,
  get,
  remove,
  streamRoute,
];
