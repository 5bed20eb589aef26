/** Time travel: retry a failed run, replay one from a checkpoint, compare two, save a checkpoint. */
import { z } from 'zod';
import { forbidden } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { compareRuns } from '../../modules/runs/compare-runs.ts';
import { requireCheckpoint, readRunRef, requireRun } from '../../modules/runs/read-runs.ts';
import { replayRun } from '../../modules/runs/replay-run.ts';
import { retryRun } from '../../modules/runs/retry-run.ts';
import { replayWorkflow, retryWorkflow } from '../../modules/workflows/restart-workflow.ts';
import { saveCheckpoint } from '../../modules/runs/save-checkpoint.ts';
import type { Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import { checkpointHead, presentHead } from './checkpoint-head.ts';
import { comparison, presentComparison, replayBody, replayedRun, retriedRun } from './replay-schemas.ts';
import { defineRunRoutes, runParams } from './run-access.ts';

const retry = defineRunRoutes({
  method: 'post',
  path: '/retry',
  access: 'runs:write',
  summary: 'Try a failed or cancelled run again, from its last checkpoint, as a new run on its thread',
  idempotent: true,
  params: runParams,
  body: z.strictObject({}),
  responses: { 202: retriedRun },
  async handle({ caller, params, context, ctx, idempotency }) {
    const { kind } = await readRunRef(context, caller, params);
    const answer = await (kind === 'workflow' ? retryWorkflow : retryRun)(context, {
      tenantId: caller.tenantId,
      requestedBy: caller.keyId,
      mayRaiseAutonomy: hasScope(caller.scopes, 'approvals:write'),
      runId: params.run,
      traceparent: ctx.state.traceparent,
      // Both paths mean the same request.
      idempotency: { ...idempotency, route: `POST /v1/runs/${params.run}/retry` },
    });
    return { ...answer, headers: { location: `/v1/runs/${answer.body.run_id}` } };
  },
});

const replay = defineRunRoutes({
  method: 'post',
  path: '/replay',
  access: 'runs:write',
  summary: 'Start a run from a checkpoint of this one; effects after it are answered from the record',
  idempotent: true,
  params: runParams,
  body: replayBody,
  responses: { 202: replayedRun },
  async handle({ caller, params, body, context, ctx, idempotency }) {
    const mayApprove = hasScope(caller.scopes, 'approvals:write');
    if (body.rerun_effects && !mayApprove) throw forbidden('rerun_effects needs the scope approvals:write.');
    const { kind } = await readRunRef(context, caller, params);
    const answer = await (kind === 'workflow' ? replayWorkflow : replayRun)(context, {
      tenantId: caller.tenantId,
      runId: params.run,
      checkpointId: body.checkpoint_id,
      mode: body.mode ?? 'live',
      rerunEffects: body.rerun_effects ?? false,
      by: caller,
      modified: body.modified_state ?? {},
      config: body.config ?? {},
      mayRaiseAutonomy: mayApprove,
      traceparent: ctx.state.traceparent,
      idempotency: { ...idempotency, route: `POST /v1/runs/${params.run}/replay` },
    });
    return { ...answer, headers: { location: `/v1/runs/${answer.body.run_id}` } };
  },
});

const compare = defineRunRoutes({
  method: 'get',
  path: '/compare/:other',
  access: 'runs:read',
  summary: 'Lay two runs beside each other, step by step; `a` is the first',
  params: runParams.extend({ other: idParam }),
  responses: { 200: comparison },
  async handle({ caller, params, context }) {
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const a = await requireRun(tx, caller, params);
      const b = await requireRun(tx, caller, { run: params.other });
      return presentComparison(a, b, await compareRuns(tx, a.id, b.id));
    });
    return { status: 200, body };
  },
});

const save = defineRunRoutes({
  method: 'post',
  path: '/checkpoints',
  access: 'runs:write',
  summary: 'Save a checkpoint now; 409 while a worker drives the run, and once it is finished',
  idempotent: true,
  params: runParams,
  body: z.strictObject({}),
  responses: { 201: checkpointHead },
  async handle({ caller, params, context, idempotency }) {
    await readRunRef(context, caller, params);
    const route = `POST /v1/runs/${params.run}/checkpoints`;
    const ref = { tenantId: caller.tenantId, runId: params.run };
    const answer = await saveCheckpoint(context, { ...ref, idempotency: { ...idempotency, route } });
    const { id } = answer.body;
    const row = await context.db.withTenant(caller.tenantId, (tx) =>
      requireCheckpoint(tx, caller, { ...params, checkpoint: id }),
    );
    const location = `/v1/runs/${params.run}/checkpoints/${id}`;
    return { ...answer, body: presentHead(row), headers: { location } };
  },
});

export const REPLAY_ROUTES: readonly Route[] = [...retry, ...replay, ...compare, ...save];
