/** What happened in a run: stream, events, checkpoints, whole outputs of calls. */
import { Readable } from 'node:stream';
import type { Message } from '../../core/content.ts';
import type { Context } from '../../modules/governance/context.ts';
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import {
  readCheckpointMessages,
  readCheckpoints,
  readLog,
  requireCheckpoint,
  readRunRef,
  requireToolCall,
  streamOutput,
  type CheckpointView,
  type EventHead,
  type Marked,
  type ToolCallRow,
} from '../../modules/runs/read-runs.ts';
import { lastEventId } from '../kit/last-event-id.ts';
import { integerParam, listParam, nextOf, pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import { checkpointHead, presentHead } from './checkpoint-head.ts';
import { untilEnded } from './answer-turn.ts';
import { defineRunRoutes, runParams } from './run-access.ts';
import { eventStream, hasMore, SSE_CONTENT } from './sse.ts';
import { streamBody } from './stream-body.ts';

const MAX_SEQ = 999_999_999;

const stream = defineRunRoutes({
  method: 'get',
  path: '/stream',
  access: 'runs:read',
  runToken: 'read',
  tokenInQuery: true,
  summary: 'Follow a run as server-sent events, from its start or after `Last-Event-ID`; 204 past its end',
  params: runParams,
  query: z.strictObject({
    after: integerParam({ min: 0, max: MAX_SEQ }).optional(),
    token: z.string().max(2000).optional().describe('A token for this run with the scope `read`, for `EventSource`.'),
  }),
  responses: { 200: SSE_CONTENT, 204: 'empty' },
  async handle({ caller, params, query, context, app, ctx }) {
    await readRunRef(context, caller, params);
    const after = lastEventId(ctx) ?? query.after ?? 0;
    const ref = { tenantId: caller.tenantId, runId: params.run, after };
    if (after > 0 && !(await hasMore(context, ref))) return { status: 204 };
    const events = eventStream(context, { ...ref, signal: untilEnded({ ctx, app, caller, context }) });
    return { status: 200, body: streamBody(ctx.res, events), headers: { 'content-type': 'text/event-stream' } };
  },
});

const event = z
  .object({
    seq: z.int(),
    type: z.string(),
    schema_version: z.int(),
    run_id: z.uuid(),
    turn_id: z.uuid().nullable(),
    step: z.int().nullable(),
    actor: z.string(),
    payload: z.record(z.string(), z.unknown()),
    occurred_at: z.iso.datetime(),
  })
  .meta({ id: 'RunEvent' });

const events = defineRunRoutes({
  method: 'get',
  path: '/events',
  access: 'runs:read',
  runToken: 'read',
  summary: 'The log of a run in order; `after` is exclusive',
  params: runParams,
  query: pageQuery(z.int32()).extend({
    after: integerParam({ min: 0, max: MAX_SEQ }).optional(),
    types: listParam(z.enum(EVENT_TYPES)).optional(),
  }),
  responses: { 200: pageFields('events', event) },
  async handle({ caller, params, query, context }) {
    const wanted = {
      path: params,
      after: query.cursor ?? query.after ?? 0,
      limit: query.limit,
      types: query.types,
    };
    const read = await context.db.withTenant(caller.tenantId, (tx) => readLog(tx, caller, wanted));
    // A page may end before its limit if it is large.
    const page = nextOf(read.events, read.hasMore, (row) => row.seq);
    return {
      status: 200,
      body: { events: read.events.map((row) => presentEvent(row, params.run)), ...page },
    };
  },
});

function presentEvent(row: EventHead, run_id: string) {
  const { seq, type, schema_version, turn_id, step, actor, payload, occurred_at } = row;
  return { seq, type, schema_version, run_id, turn_id, step, actor, payload, occurred_at };
}

const checkpoints = defineRunRoutes({
  method: 'get',
  path: '/checkpoints',
  access: 'runs:read',
  summary: "List a run's checkpoints, newest first",
  params: runParams,
  query: pageQuery().extend({ before: idParam.optional() }),
  responses: { 200: pageFields('checkpoints', checkpointHead) },
  async handle({ caller, params, query, context }) {
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readCheckpoints(tx, caller, {
        path: params,
        before: query.cursor ?? query.before,
        limit: query.limit + 1,
      }),
    );
    const { items, ...page } = pageOf(rows, query.limit, (row) => row.id);
    return { status: 200, body: { checkpoints: items.map(presentHead), ...page } };
  },
});

const checkpoint = checkpointHead.extend({
  state: z
    .object({
      messages: z.array(z.unknown()),
      current_node: z.string(),
      iteration: z.int(),
      custom: z.record(z.string(), z.unknown()),
      pending_sends: z.array(z.unknown()),
    })
    .optional()
    .describe('Absent of one that is corrupt.'),
  channel_versions: z.record(z.string(), z.number()),
  integrity_hash: z.string(),
});

const getCheckpoint = defineRunRoutes({
  method: 'get',
  path: '/checkpoints/:checkpoint',
  access: 'runs:read',
  summary: 'Get a checkpoint with its full state, put together from where it lies',
  params: runParams.extend({ checkpoint: idParam }),
  responses: { 200: checkpoint },
  async handle({ caller, params, context }) {
    const { tenantId } = caller;
    const row = await context.db.withTenant(tenantId, (tx) => requireCheckpoint(tx, caller, params));
    const messages = readCheckpointMessages(context.db, { tenantId, runId: params.run }, row);
    return { status: 200, body: Readable.from(checkpointBody(row, messages)), headers: JSON_CONTENT };
  },
});

const JSON_CONTENT = { 'content-type': 'application/json; charset=utf-8' };

/** Streams the checkpoint as it is read: a conversation may have any length. */
async function* checkpointBody(
  row: Marked<CheckpointView>,
  messages: AsyncIterable<Message[]>,
): AsyncGenerator<string> {
  const head = { ...presentHead(row), channel_versions: row.channel_versions, integrity_hash: row.hash };
  if (row.isCorrupt) {
    yield JSON.stringify(head);
    return;
  }
  const { steps: iteration, custom } = row.state;
  const state = { current_node: row.node, iteration, custom, pending_sends: row.pending_sends };
  yield `${JSON.stringify(head).slice(0, -1)},"state":${JSON.stringify(state).slice(0, -1)},"messages":[`;
  let isFirst = true;
  for await (const page of messages) {
    for (const message of page) {
      yield `${isFirst ? '' : ','}${JSON.stringify(message)}`;
      isFirst = false;
    }
  }
  yield ']}}';
}

const callOutput = defineRoute({
  method: 'get',
  path: '/v1/tool-calls/:id/output',
  access: 'runs:read',
  runToken: 'read',
  namesCall: true,
  summary: 'The whole output of a tool call, which a model may have seen cut',
  params: z.strictObject({ id: idParam }),
  responses: {
    200: z.object({
      id: z.uuid(),
      tool_call_id: z.uuid(),
      run_id: z.uuid(),
      tool: z.string(),
      status: z.string(),
      is_error: z.boolean().nullable(),
      output_bytes: z.int().nullable(),
      output: z.unknown(),
    }),
  },
  async handle({ caller, params, context }) {
    const call = await context.db.withTenant(caller.tenantId, (tx) => requireToolCall(tx, caller, params.id));
    return {
      status: 200,
      body: Readable.from(outputBody(context.db, caller.tenantId, call)),
      headers: JSON_CONTENT,
    };
  },
});

/** Streams the output, so that many, large or slow reads take no memory here. */
async function* outputBody(db: Context['db'], tenantId: string, call: ToolCallRow): AsyncGenerator<string> {
  const { id, run_id, name: tool, status, is_error, output_bytes } = call;
  const head = JSON.stringify({ id, tool_call_id: id, run_id, tool, status, is_error, output_bytes });
  yield `${head.slice(0, -1)},"output":`;
  yield* streamOutput(db, tenantId, call);
  yield '}';
}

export const LOG_ROUTES: readonly Route[] = [...stream, ...events, ...checkpoints, ...getCheckpoint, callOutput];
