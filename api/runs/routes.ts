/** Runs: start, list, get, cancel, complete. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { isTerminal, RUN_STATUSES } from '../../core/events.ts';
import { hasScope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';
import { createRunWith } from '../../modules/runs/attach-files.ts';
import { cancelRun, completeRun } from '../../modules/runs/end-run.ts';
import { readRuns, readTree, readRun, readRunRef, withLastWords } from '../../modules/runs/read-runs.ts';
import { afterHandoff } from '../../modules/sessions/after-handoff.ts';
import { readWaitingTasks } from '../../modules/workflows/read-workflows.ts';
import { webhookPaths } from '../../modules/waits/webhook-urls.ts';
import { listParam, nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { agentIdParam, threadIdParam, threadOf } from '../kit/external-ids.ts';
import { publicOrigin } from '../kit/public-origin.ts';
import { metadataFilter } from '../kit/metadata-filter.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam, timeTextParam } from '../kit/validate.ts';
import { defineRunRoutes, runParams } from './run-access.ts';
import { createRunBody } from './request-schemas.ts';
import { createdRun, presentRun, presentRunTo, run } from './schemas.ts';
import { presentTree, runTree } from './run-tree.ts';
import { presentWaitingChild } from './waiting.ts';

type Shown = z.input<typeof run>;

const agentParams = z.strictObject({ id: agentIdParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/runs',
  access: 'runs:write',
  summary: 'Start a run; without input it waits for its first turn',
  idempotent: true,
  params: agentParams,
  body: createRunBody,
  responses: { 201: createdRun, 202: createdRun },
  async handle({ caller, params, body, context, idempotency, ctx }) {
    const request = {
      tenantId: caller.tenantId,
      workspaceId: caller.workspaceId,
      agentId: params.id,
      ...threadOf(body.thread_id),
      metadata: body.metadata,
      input: body.input
        ? { output_schema: body.output_schema, ...body.input, replaced: ctx.state.replaced }
        : undefined,
      config: body.config ?? {},
      mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
      requestedBy: caller.keyId,
      traceparent: ctx.state.traceparent,
      idempotency,
    };
    const answer = await afterHandoff(context, caller.tenantId, () => createRunWith(context, request));
    const { run_id } = answer.body;
    return { ...answer, body: { id: run_id, ...answer.body }, headers: { location: `/v1/runs/${run_id}` } };
  },
});

const filters = pageQuery().extend({
  status: listParam(z.enum(RUN_STATUSES)).optional(),
  thread: threadIdParam.optional(),
  thread_id: threadIdParam.optional(),
  ...metadataFilter,
  created_after: timeTextParam.optional(),
  created_before: timeTextParam.optional(),
});

const list = defineRoute({
  method: 'get',
  path: '/v1/runs',
  access: 'runs:read',
  summary: 'List runs, newest first; a page ends where it is large enough',
  query: filters.extend({
    agent: agentIdParam.optional(),
    agent_id: agentIdParam.optional(),
    parent: idParam.optional().describe('Only the children of this run.'),
    root: idParam.optional().describe('Only this run and all below it.'),
  }),
  responses: { 200: pageFields('runs', run) },
  async handle({ caller, query, context }) {
    const page = await context.db.withTenant(caller.tenantId, (tx) =>
      readRuns(tx, caller, {
        ...toFilter(query),
        agentId: query.agent ?? query.agent_id,
        parentId: query.parent,
        rootId: query.root,
      }),
    );
    return { status: 200, body: presentPage(page) };
  },
});

const listOfAgent = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/runs',
  access: 'runs:read',
  summary: "List an agent's runs, newest first; a page ends where it is large enough",
  params: agentParams,
  query: filters,
  responses: { 200: pageFields('runs', run) },
  async handle({ caller, params, query, context }) {
    const page = await context.db.withTenant(caller.tenantId, (tx) =>
      readRuns(tx, caller, { ...toFilter(query), ofAgent: params.id }),
    );
    return { status: 200, body: presentPage(page) };
  },
});

function toFilter(query: z.output<typeof filters>) {
  return {
    status: query.status,
    threadId: query.thread ?? query.thread_id,
    createdAfter: query.created_after,
    createdBefore: query.created_before,
    metadata: query.metadata,
    before: query.cursor,
    limit: query.limit,
  };
}

function presentPage({ rows, more }: Awaited<ReturnType<typeof readRuns>>) {
  return { runs: rows.map((row) => presentRun(row)), ...nextOf(rows, more, (row) => row.id) };
}

const get = defineRunRoutes({
  method: 'get',
  path: '',
  access: 'runs:read',
  runToken: 'read',
  summary: 'Get a run',
  params: runParams,
  responses: { 200: run },
  async handle({ caller, params, context, ctx }) {
    const row = await withLastWords(context, caller.tenantId, await readRun(context, caller, params));
    const showsPaths = row.waits?.some(({ type }) => type === 'webhook') && hasScope(caller.scopes, 'runs:write');
    if (!showsPaths) return { status: 200, body: await withWaitingChild(context, caller, presentRun(row)) };
    const paths = await context.db.withTenant(caller.tenantId, (tx) =>
      webhookPaths(tx, context, { tenantId: caller.tenantId, id: row.id }),
    );
    const urls = new Map([...paths].map(([id, path]) => [id, `${publicOrigin(ctx)}${path}`]));
    return { status: 200, body: presentRun(row, urls) };
  },
});

/** Adds a child's wait to a workflow that waits for nothing itself. */
async function withWaitingChild(context: Context, { tenantId }: Caller, shown: Shown): Promise<Shown> {
  if (shown.kind !== 'workflow' || shown.waiting_for || isTerminal(shown.status)) return shown;
  const { tasks, children } = await readWaitingTasks(context, { tenantId, runId: shown.id });
  const waiting = presentWaitingChild(tasks, children);
  return waiting ? { ...shown, waiting_for: waiting } : shown;
}

const tree = defineRunRoutes({
  method: 'get',
  path: '/tree',
  access: 'runs:read',
  summary: 'A run with all that stands below it',
  params: runParams,
  responses: { 200: runTree },
  async handle({ caller, params, context }) {
    const rows = await context.db.withTenant(caller.tenantId, (tx) => readTree(tx, caller, params));
    return { status: 200, body: presentTree(rows) };
  },
});

const cancel = defineRunRoutes({
  method: 'post',
  path: '/cancel',
  access: 'runs:write',
  summary: 'Cancel a run: 202, and 200 when it was cancelled already',
  params: runParams,
  body: z.strictObject({ reason: z.string().max(1000).optional() }),
  responses: { 200: run, 202: run },
  async handle({ caller, params, body, context }) {
    const ref = { tenantId: caller.tenantId, runId: params.run, by: caller };
    await readRunRef(context, caller, params);
    const isNew = await cancelRun(context, ref, body.reason);
    const row = await readRun(context, caller, params);
    return { status: isNew ? 202 : 200, body: presentRunTo(caller, row) };
  },
});

const complete = defineRunRoutes({
  method: 'post',
  path: '/complete',
  access: 'runs:write',
  summary: 'Complete a run that waits between turns',
  params: runParams,
  body: z.strictObject({}),
  responses: { 200: run },
  async handle({ caller, params, context }) {
    await readRunRef(context, caller, params);
    await completeRun(context, { tenantId: caller.tenantId, runId: params.run });
    const row = await readRun(context, caller, params);
    return { status: 200, body: presentRunTo(caller, row) };
  },
});

export const RUN_ROUTES: readonly Route[] = [create, list, listOfAgent, ...get, ...tree, ...cancel, ...complete];
