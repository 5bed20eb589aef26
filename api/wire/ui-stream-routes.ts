/** The AI SDK's UI message stream over HTTP. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { cleanJson, noteReplaced } from '../../core/content.ts';
import { forbidden } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { toSessionSeq, type SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import { requireReadableThread } from '../../modules/sessions/client-thread.ts';
import {
  answerOnThread,
  isErasedThread,
  readShownTurn,
  say,
  threadIdOf,
  type Said,
  type ShownTurn,
} from '../../modules/sessions/converse.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { lastThreadEventId } from '../kit/last-event-id.ts';
import { defineRoute, type AppParts, type OtherContent, type Route } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { untilEnded } from '../runs/answer-turn.ts';
import { streamBody } from '../runs/stream-body.ts';
import { followFate } from './follow-message.ts';
import { foldUntil, followTurn } from './form.ts';
import { requireMayDecide } from './may-decide.ts';
import { saidOnce } from './said-once.ts';
import { toServerSentEvents } from './server-sent-events.ts';
import { UI_STREAM } from './ui-stream.ts';
import { answeredMessage, answersOf, inputOf, uiStreamBody } from './ui-stream-request.ts';

const CONTENT: OtherContent = {
  contentType: 'text/event-stream',
  description: 'UI message chunks of the AI SDK, version 1, up to `[DONE]`. `id` is the place on the thread.',
};

const HEADERS = { 'content-type': 'text/event-stream', 'x-vercel-ai-ui-message-stream': 'v1' };

const post = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/ui-stream',
  access: 'runs:write',
  threadToken: { scope: 'answer' },
  summary: 'Take a message, or answers, from a client of the AI SDK, and follow the turn as its UI message stream',
  idempotent: true,
  params: z.strictObject({ id: agentIdParam }),
  body: uiStreamBody,
  responses: { 200: CONTENT },
  async handle(request) {
    return stream(request, await begin(request, request.params.id));
  },
});

interface Posted {
  caller: Caller;
  body: z.output<typeof uiStreamBody>;
  context: Context;
  ctx: ApiContext;
  idempotency: IdempotentRequest;
}

/** Returns the turn, and the position after which to show it: all of it after a message, the continuation after answers. */
async function begin(
  { caller, body, context, ctx, idempotency }: Posted,
  agentId: string,
): Promise<Said & { after: number }> {
  const said = inputOf(body);
  const { tenantId } = caller;
  const threadId = await context.db.withTenant(tenantId, (tx) => threadIdOf(tx, caller, body.id));
  if (said) {
    const { id } = said;
    const { attachmentPaths: _inThisBody, ...words } = said.input;
    // What its client has of earlier messages, which it posts again, is not noted.
    const { given = body } = ctx.state;
    const input = { ...cleanJson(said.input), ...noteReplaced(inputOf(given as typeof body)?.input) };
    const asked = { key: idempotency.key, thread: threadId, message: { id: id ?? '', input: words } };
    const saying = { caller, agentId, threadId, input, mode: body.mode, traceparent: ctx.state.traceparent };
    if (id === undefined) return { ...(await say(context, { ...saying, idempotency })), after: 0 };
    // Its client cannot ask otherwise for another try of a failed turn.
    const after = (turnId: string) => saidOnce(idempotency, { ...asked, after: turnId });
    const once = { idempotency: saidOnce(idempotency, asked), ...(idempotency.key === undefined && { after }) };
    return { ...(await say(context, { ...saying, ...once })), after: 0 };
  }
  const answered = answeredMessage(body);
  const { turn, isAnswered, stood } = await answerOnThread(context, {
    caller,
    threadId,
    idempotency,
    turnId: answered?.id,
    choose(open) {
      const answers = answersOf(body, open);
      requireMayDecide(caller, answers);
      return answers;
    },
  });
  const { pausedAt } = await foldUntil(context, { tenantId, turn, until: stood, stopsAtEnd: true });
  // If the answers were taken earlier, the stream goes beyond the present pause: at its end the client would post them again.
  const isBeyond = turn.isOpen && !isAnswered && answered !== undefined;
  return { turn: { ...turn, head: isBeyond ? turn.head + 1 : turn.head }, after: pausedAt };
}

const get = defineRoute({
  method: 'get',
  path: '/v1/threads/:id/ui-stream',
  access: 'any-key',
  threadToken: { scope: 'read' },
  tokenInQuery: true,
  summary:
    'Go on with the newest turn of a thread as a UI message stream of the AI SDK, told from its start; 204 without one, if ' +
    'nothing was said yet under the name, or if the thread is erased. ' +
    'Needs the scope `runs:read`, or `runs:write` on a thread on which the key has said something',
  params: z.strictObject({ id: z.string().min(1).max(200) }),
  query: z.strictObject({
    token: z
      .string()
      .max(2000)
      .optional()
      .describe('A token for this thread with the scope `read`, for `EventSource`.'),
  }),
  responses: { 200: CONTENT, 204: 'empty' },
  async handle(request) {
    const { caller, params, context, ctx } = request;
    const maySee = hasScope(caller.scopes, 'runs:read');
    if (!maySee && !hasScope(caller.scopes, 'runs:write')) {
      throw forbidden('The key has neither the scope "runs:read" nor "runs:write".');
    }
    if (await isErasedThread(context, caller, params.id)) return { status: 204 };
    const turn = await readShownTurn(context, caller, params.id);
    if (turn && !maySee) {
      await context.db.withTenant(caller.tenantId, (tx) => requireReadableThread(tx, caller, turn.threadId));
    }
    // A client that was cut off gets an end that it has missed, too.
    if (!turn || (!turn.isOpen && hasAll(lastThreadEventId(ctx), turn))) return { status: 204 };
    return stream(request, { turn, after: 0 });
  },
});

function hasAll(has: SessionPosition | undefined, { place, head: seq }: ShownTurn): boolean {
  return has !== undefined && toSessionSeq(has) >= toSessionSeq({ place, seq });
}

interface Streamed {
  caller: Caller;
  context: Context;
  app: Pick<AppParts, 'authenticator' | 'closing'>;
  ctx: ApiContext;
}

function stream({ caller, context, app, ctx }: Streamed, { turn, after, waiting }: Said & { after: number }) {
  const signal = untilEnded({ ctx, app, caller, context });
  const about = { tenantId: caller.tenantId, turn, after, signal };
  const sent =
    waiting === undefined
      ? followTurn(context, about, UI_STREAM)
      : followFate(context, { ...about, messageId: waiting }, UI_STREAM);
  const body = streamBody(ctx.res, toServerSentEvents(sent, '[DONE]'));
  return { status: 200, body, headers: { ...HEADERS, 'x-drover-thread-id': turn.threadId } };
}

export const UI_STREAM_ROUTES: readonly Route[] = [post, get];
