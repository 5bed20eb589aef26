/** AG-UI over HTTP. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { noteReplaced } from '../../core/content.ts';
import type { SessionPosition } from '../../core/session-position.ts';
import type { Context } from '../../modules/governance/context.ts';
import {
  answerOnThread,
  say,
  threadIdOf,
  type Said,
  type Saying,
  type ShownTurn,
} from '../../modules/sessions/converse.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { lastThreadEventId } from '../kit/last-event-id.ts';
import { defineRoute, type OtherContent, type Route } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { untilEnded } from '../runs/answer-turn.ts';
import { streamBody } from '../runs/stream-body.ts';
import { agUi } from './ag-ui.ts';
import { agUiWithPast } from './ag-ui-past.ts';
import {
  answersOf,
  inputBeside,
  inputOf,
  lastSaid,
  messageIdOf,
  modeOf,
  passedOver,
  runAgentInput,
  type RunAgentInput,
  type SaidMessage,
} from './ag-ui-request.ts';
import { followThrough } from './follow-message.ts';
import { followTurn } from './form.ts';
import { requireMayDecide } from './may-decide.ts';
import { saidOnce } from './said-once.ts';
import { toServerSentEvents } from './server-sent-events.ts';

const CONTENT: OtherContent = {
  contentType: 'text/event-stream',
  description: 'Events of AG-UI 1.0, from `RUN_STARTED` to `RUN_FINISHED` or `RUN_ERROR`.',
};

const run = defineRoute({
  method: 'post',
  path: '/ag-ui/:agent',
  access: 'runs:write',
  threadToken: { scope: 'answer' },
  summary: 'Run an agent for an AG-UI client: take a message or answers, or go on with the newest turn',
  idempotent: true,
  params: z.strictObject({ agent: agentIdParam }),
  body: runAgentInput,
  responses: { 200: CONTENT },
  async handle(request) {
    const { caller, body, context, app, ctx, params } = request;
    const { turn, after: stands, waiting: messageId, passed, isJoining } = await begin(request, params.agent);
    const after = standsAfter(lastThreadEventId(ctx), { turn, stands });
    const signal = untilEnded({ ctx, app, caller, context });
    const about = { tenantId: caller.tenantId, turn, after, signal };
    const client = { ...body, thread: turn.threadId, passed };
    const form = isJoining ? await agUiWithPast(context, { caller, turn }, client) : agUi(client);
    const sent =
      messageId === undefined
        ? followTurn(context, about, form)
        : followThrough(context, { ...about, messageId }, form);
    const headers = { 'content-type': 'text/event-stream', 'x-drover-thread-id': turn.threadId };
    return { status: 200, body: streamBody(ctx.res, toServerSentEvents(sent)), headers };
  },
});

/** The position in the turn's run that the client has reached: a client that stood in a run before has nothing of this one. */
function standsAfter(has: SessionPosition | undefined, { turn, stands }: { turn: ShownTurn; stands: number }): number {
  if (!has || has.place > turn.place) return stands;
  return has.place < turn.place ? 0 : Math.min(has.seq, stands);
}

interface Posted {
  caller: Caller;
  body: RunAgentInput;
  context: Context;
  ctx: ApiContext;
  idempotency: IdempotentRequest;
}

/**
 * Returns the turn, and the position up to which a prelude shows it; `passed`: interrupts that are not open; `isJoining`:
 * the client has answered nothing that is open, and goes on with what there is.
 */
async function begin(
  { caller, body, context, ctx, idempotency }: Posted,
  agentId: string,
): Promise<Said & { after: number; passed: string[]; isJoining: boolean }> {
  const threadId = await context.db.withTenant(caller.tenantId, (tx) => threadIdOf(tx, caller, body.threadId));
  // What its client has of earlier messages, which it posts again, is not noted.
  const { given = body } = ctx.state;
  const sayingOf = (said: SaidMessage, key?: string): Saying => {
    const once = saidOnce(idempotency, { key, thread: threadId, message: said });
    const input = { ...said.input, ...noteReplaced(lastSaid(given as RunAgentInput)?.input) };
    const message = { input, mode: modeOf(body), messageId: messageIdOf(threadId, said.id) };
    return { caller, agentId, threadId, ...message, traceparent: ctx.state.traceparent, idempotency: once };
  };
  const said = inputOf(body);
  if (said) {
    const taken = await say(context, sayingOf(said, idempotency.key));
    if (taken.isRepeated && taken.waiting === undefined) {
      // Its client may have lost a message that it said later, between two snapshots.
      const newest = await answerOnThread(context, { caller, threadId, idempotency, choose: () => [] });
      const goesOn = newest.waiting !== undefined || newest.turn.turnId !== taken.turn.turnId;
      if (goesOn) return { ...newest, after: newest.stood, passed: [], isJoining: true };
    }
    return { ...taken, after: taken.turn.head, passed: [], isJoining: false };
  }
  let passed: string[] = [];
  const { isAnswered, stood, ...at } = await answerOnThread(context, {
    caller,
    threadId,
    idempotency,
    choose(open) {
      const answers = answersOf(body, open);
      requireMayDecide(caller, answers);
      passed = passedOver(body, answers);
      return answers;
    },
    sayingAfter(begun) {
      const beside = inputBeside(body, begun);
      return beside && sayingOf(beside);
    },
  });
  return { ...at, after: stood, passed, isJoining: !isAnswered };
}

export const AG_UI_ROUTES: readonly Route[] = [run];
