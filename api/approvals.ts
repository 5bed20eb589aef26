/** Approvals, and signals to waiting runs. */
import { z } from 'zod';
import { conflict, forbidden } from '../core/errors.ts';
import { digestOf } from '../core/ids.ts';
import type { Caller } from '../core/caller.ts';
import { hasScope } from '../core/scopes.ts';
import {
  readApprovals,
  requireApproval,
  type ApprovalRow,
  type ConflictRow,
} from '../modules/approvals/read-approvals.ts';
import { decideConflict } from '../modules/approvals/decide-conflict.ts';
import { decideApproval, decisionOf } from '../modules/approvals/decide-approval.ts';
import { checkedKey, chooseOnce } from '../modules/tenants/idempotency.ts';
import { postResults, postSignal } from '../modules/waits/post-signal.ts';
import { nextOf, pageFields, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { checkPart, idParam } from './kit/validate.ts';
import { readRun, type RunView } from '../modules/runs/read-runs.ts';
import { decisionBody, toDecision } from './runs/decision-schema.ts';
import { defineRunRoutes, runParams } from './runs/run-access.ts';
import { toolResultsPayload } from './runs/request-schemas.ts';

const statuses = z.enum(['pending', 'approved', 'denied', 'expired', 'settled']);
const when = z.iso.datetime();

const approval = z
  .object({
    id: z.uuid(),
    approval_id: z.uuid(),
    run_id: z.uuid().nullable().describe('Null for a conflict in memory, which belongs to no run.'),
    turn_id: z.uuid().nullable(),
    kind: z.enum(['approval', 'unknown', 'conflict']),
    fragment_id: z.uuid().nullable().describe('What a conflict is about: a fragment of a space,'),
    memory_id: z.uuid().nullable().describe('or an entry of an agent’s memory.'),
    tool_call_id: z.uuid().nullable(),
    plan_id: z.uuid().nullable(),
    tool: z.string(),
    arguments: z
      .record(z.string(), z.unknown())
      .describe('Of a conflict: empty for a key without `memory:read` and `approvals:write`.'),
    original_arguments: z
      .record(z.string(), z.unknown())
      .nullable()
      .describe('What the model asked for, where a person has put other arguments in its place.'),
    digest: z.string(),
    message: z.string().nullable().describe('Why a person is asked.'),
    policy: z.strictObject({ id: z.uuid(), name: z.string(), version: z.int() }).nullable(),
    four_eyes: z.boolean(),
    decided_by: z.uuid().nullable().describe('The key that decided.'),
    status: statuses,
    decision: z.string().nullable(),
    reason: z.string().nullable(),
    expires_at: when,
    created_at: when,
    decided_at: when.nullable(),
  })
  .meta({ id: 'Approval' });

const decidedApproval = z
  .strictObject({ id: z.uuid(), approval_id: z.uuid(), status: statuses })
  .meta({ id: 'DecidedApproval', description: 'What a key without `runs:read` is told of its decision.' });

/** A conflict's content is only for callers that may read memory or decide on it. */
function presentTo({ scopes }: Caller, row: ApprovalRow | ConflictRow): z.input<typeof approval> {
  const shown = present(row);
  const maySee = hasScope(scopes, 'memory:read') || hasScope(scopes, 'approvals:write');
  return row.kind !== 'conflict' || maySee ? shown : { ...shown, arguments: {}, original_arguments: null };
}

function present({ is_due: _due, ...given }: ApprovalRow | ConflictRow): z.input<typeof approval> {
  const {
    workspace_id: _workspace,
    subject_type: type,
    subject_id: subject,
    ...row
  } = { subject_type: null, workspace_id: null, subject_id: null, ...given };
  return {
    ...row,
    fragment_id: type === 'fragment' ? subject : null,
    memory_id: type === 'memory' ? subject : null,
    approval_id: row.id,
    decision: decisionOf(row) ?? null,
    expires_at: row.expires_at.toISOString(),
    created_at: row.created_at.toISOString(),
    decided_at: row.decided_at?.toISOString() ?? null,
  };
}

const list = defineRoute({
  method: 'get',
  path: '/v1/approvals',
  access: 'runs:read',
  summary: 'List approvals, newest first',
  query: pageQuery().extend({ status: statuses.optional(), run_id: idParam.optional() }),
  responses: { 200: pageFields('approvals', approval) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, status, run_id: runId } = query;
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readApprovals(tx, caller, { status, runId, before, limit }),
    );
    const approvals = rows.map((row) => presentTo(caller, row));
    return { status: 200, body: { approvals, ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/approvals/:id',
  access: 'runs:read',
  summary: 'Get an approval with the exact arguments it is for',
  params: z.strictObject({ id: idParam }),
  responses: { 200: approval },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireApproval(tx, caller, { id: params.id }));
    return { status: 200, body: presentTo(caller, row) };
  },
});

const decide = defineRoute({
  method: 'post',
  path: '/v1/approvals/:id',
  access: 'approvals:write',
  summary: 'Decide on an approval; the same decision again changes nothing',
  params: z.strictObject({ id: idParam }),
  body: decisionBody,
  responses: { 200: z.union([approval, decidedApproval]) },
  async handle({ caller, params, body, context }) {
    const ref = { tenantId: caller.tenantId, id: params.id, workspaceId: caller.workspaceId, by: caller };
    const decision = toDecision(body, 'body');
    const inMemory = await decideConflict(context, { ...caller, approvalId: params.id }, decision);
    const row = inMemory ?? (await decideApproval(context, ref, decision));
    if (hasScope(caller.scopes, 'runs:read')) return { status: 200, body: present(row) };
    return { status: 200, body: { id: row.id, approval_id: row.id, status: row.status } };
  },
});

const signalBody = z.strictObject({
  type: z.enum(['approval', 'timer', 'webhook', 'user', 'tool_results']),
  name: z.string().max(200).optional(),
  payload: z.unknown().optional(),
  id: z.string().min(1).max(255).optional(),
});

const userPayload = z.strictObject({ message: z.string().min(1) });
const approvalPayload = decisionBody.extend({ approval_id: z.uuid().toLowerCase().optional() });

const signal = defineRunRoutes({
  method: 'post',
  path: '/signals',
  access: 'runs:write',
  runToken: 'answer',
  idempotent: true,
  summary: 'Send a signal to a run: kept until the run asks for it, counted once by its id',
  params: runParams,
  body: signalBody,
  responses: {
    200: z.object({ id: z.string(), status: z.string() }),
    202: z.object({ id: z.string(), status: z.string() }),
  },
  async handle({ caller, params, body, context, ctx, idempotency }) {
    const run = await readRun(context, caller, params);
    const { type, name } = body;
    const id = body.id ?? checkedKey(idempotency);
    if (type === 'approval') {
      if (!hasScope(caller.scopes, 'approvals:write')) throw forbidden('Approving needs the scope approvals:write.');
      const { approval_id: given, ...decided } = checkPayload(approvalPayload, body);
      // The same one when the signal comes again, whatever the run waits for by then.
      const request = { ...idempotency, key: id && digestOf(id) };
      const approval_id = given ?? (await chooseOnce(context, request, () => approvalMeant(run, name)));
      const ref = { tenantId: caller.tenantId, id: approval_id, workspaceId: caller.workspaceId, by: caller };
      await context.db.withTenant(caller.tenantId, (tx) =>
        requireApproval(tx, caller, { id: approval_id, runId: params.run }),
      );
      const { status } = await decideApproval(context, ref, toDecision(decided, 'body.payload'));
      return { status: 200, body: { id: approval_id, status } };
    }
    const digest = id === undefined ? undefined : digestOf({ ...body, id: undefined });
    const { replaced } = ctx.state;
    const sent = { tenantId: caller.tenantId, runId: params.run, id, digest, requestedBy: caller.keyId, replaced };
    if (type === 'tool_results') {
      const results = checkPayload(toolResultsPayload, body);
      const posted = await postResults(context, { ...sent, results });
      return { status: posted.isNew ? 202 : 200, body: { id: posted.id, status: 'accepted' } };
    }
    const payload = type === 'user' ? checkPayload(userPayload, body) : body.payload;
    const posted = await postSignal(context, { ...sent, type, name, payload });
    return { status: posted.isNew ? 202 : 200, body: { id: posted.id, status: 'accepted' } };
  },
});

/** The one approval that the run waits for, by the name of the node that asks where the signal has one. Throws 409. */
function approvalMeant({ approvals }: RunView, name: string | undefined): string {
  const open = (approvals ?? []).filter((each) => name === undefined || each.name === name);
  const [only, ...others] = open;
  if (only && others.length === 0) return only.id;
  const what = name === undefined ? '' : ` named "${name}"`;
  throw conflict(
    only
      ? `The run waits for several approvals${what}: payload.approval_id says which.`
      : `The run waits for no approval${what}.`,
    { wait_ids: open.map(({ id }) => id) },
  );
}

function checkPayload<T extends z.ZodType>(schema: T, { payload }: z.output<typeof signalBody>): z.output<T> {
  return checkPart(schema, payload ?? {}, 'body.payload');
}

export const APPROVAL_ROUTES: readonly Route[] = [list, get, decide, ...signal];
