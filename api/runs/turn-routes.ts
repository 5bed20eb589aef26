/** Turns: synchronous, in the background, or streamed; and their history. */
import { z } from 'zod';
import type { Context } from '../../modules/governance/context.ts';
import type { Caller } from '../../core/caller.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';
import { postToolResults } from '../../modules/waits/post-tool-results.ts';
import { postTurnWith } from '../../modules/runs/attach-files.ts';
import { readTurns, readRunRef, requireTurn } from '../../modules/runs/read-runs.ts';
import { nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { metadataFilter } from '../kit/metadata-filter.ts';
import { type Route } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { idParam } from '../kit/validate.ts';
import { answerTurn, TURN_ANSWERS, untilEnded } from './answer-turn.ts';
import { defineRunRoutes, runParams } from './run-access.ts';
import { postTurnBody } from './request-schemas.ts';
import { presentTurn, presentTurnDetail, turn, turnDetail } from './schemas.ts';
import { eventStream, SSE_CONTENT } from './sse.ts';
import { streamBody } from './stream-body.ts';

const post = defineRunRoutes({
  method: 'post',
  path: '/turns',
  access: 'runs:write',
  summary: 'Take a turn: 200 with its answer, or 202 where that takes longer than `Prefer: wait=N` (60 s)',
  idempotent: true,
  params: runParams,
  body: postTurnBody,
  prefers: true,
  responses: TURN_ANSWERS,
  async handle(request) {
    return answerTurn(request, () => start(request));
  },
});

const stream = defineRunRoutes({
  method: 'post',
  path: '/turns/stream',
  access: 'runs:write',
  summary: 'Take a turn and follow it as server-sent events, up to its `done`',
  idempotent: true,
  params: runParams,
  body: postTurnBody,
  responses: { 200: SSE_CONTENT },
  async handle(request) {
    const { caller, params, context, app, ctx } = request;
    const { turnId, after, replayed } = await start(request);
    const signal = untilEnded({ ctx, app, caller, context });
    const events = eventStream(context, {
      tenantId: caller.tenantId,
      runId: params.run,
      turnId,
      after,
      signal,
    });
    return {
      status: 200,
      body: streamBody(ctx.res, events),
      replayed,
      headers: { 'content-type': 'text/event-stream' },
    };
  },
});

interface TurnRequest {
  caller: Caller;
  params: { run: string; id?: string | undefined };
  body: z.output<typeof postTurnBody>;
  context: Context;
  ctx: ApiContext;
  idempotency: IdempotentRequest;
}

/** Starts the turn; returns it with the position after which to stream. */
async function start({ caller, params, body, context, ctx, idempotency }: TurnRequest) {
  const run = await readRunRef(context, caller, params);
  const { attachments, output_schema = body.output_schema } = body.input ?? {};
  const message = body.input?.message ?? '';
  const results = body.tool_results ?? body.input?.tool_results;
  const about = {
    tenantId: caller.tenantId,
    agentId: run.agent_id,
    runId: run.id,
    // Waiting, streaming and both paths mean the same request.
    idempotency: { ...idempotency, route: `POST /v1/runs/${run.id}/turns` },
  };
  const { replaced } = ctx.state;
  if (results) return postToolResults(context, { ...about, results, requestedBy: caller.keyId, replaced });
  const input = { message, attachments, output_schema, metadata: body.metadata, replaced };
  return postTurnWith(context, { ...about, input, requestedBy: caller.keyId, traceparent: ctx.state.traceparent });
}

const list = defineRunRoutes({
  method: 'get',
  path: '/turns',
  access: 'runs:read',
  runToken: 'read',
  summary: "List a run's turns, oldest first; a page ends where it is large enough",
  params: runParams,
  query: pageQuery(z.int32()).extend(metadataFilter),
  responses: { 200: pageFields('turns', turn) },
  async handle({ caller, params, query, context }) {
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readTurns(tx, caller, { path: params, after: query.cursor, metadata: query.metadata, limit: query.limit }),
    );
    const next = nextOf(rows, more, (row) => row.number);
    return { status: 200, body: { turns: rows.map(presentTurn), ...next } };
  },
});

const get = defineRunRoutes({
  method: 'get',
  path: '/turns/:turn',
  access: 'runs:read',
  runToken: 'read',
  summary: 'Get a turn with its steps, model calls and tool calls',
  params: runParams.extend({ turn: idParam }),
  responses: { 200: turnDetail },
  async handle({ caller, params, context }) {
    const detail = await context.db.withTenant(caller.tenantId, (tx) => requireTurn(tx, caller, params));
    return { status: 200, body: presentTurnDetail(detail.turn, detail) };
  },
});

export const TURN_ROUTES: readonly Route[] = [...post, ...stream, ...list, ...get];
