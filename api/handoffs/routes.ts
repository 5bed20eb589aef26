/** Handoffs: an agent passes its work to another one. */
import { z } from 'zod';
import { forbidden } from '../../core/errors.ts';
import { HANDOFF_STATUSES } from '../../core/handoff.ts';
import { hasScope } from '../../core/scopes.ts';
import { createHandoff } from '../../modules/workflows/create-handoff.ts';
import { readHandoffs, requireHandoff, withChain } from '../../modules/workflows/read-handoffs.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { listParam, pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import {
  createHandoffBody,
  handoff,
  listedHandoff,
  presentHandoff,
  presentHandoffTo,
  presentListed,
} from './schemas.ts';

const MUST_READ = 'The key does not have the scope "memory:read", which naming shared fragments needs.';

const create = defineRoute({
  method: 'post',
  path: '/v1/handoffs',
  access: 'runs:write',
  summary: 'Hand a task from one agent to another',
  idempotent: true,
  body: createHandoffBody,
  responses: { 201: handoff },
  async handle({ caller, body, context, idempotency, ctx }) {
    const { shared_fragments: named = [] } = body.context.memory_references ?? {};
    // What the target is given is shown here, and with the target's run.
    if (named.length > 0 && !hasScope(caller.scopes, 'memory:read')) throw forbidden(MUST_READ);
    const { reason, urgency } = body.context.handoff_metadata ?? {};
    const request = {
      caller,
      taskId: body.task_id,
      sourceAgentId: body.source_agent_id,
      targetAgentId: body.target_agent_id,
      context: body.context,
      reason: body.reason ?? reason ?? '',
      urgency: body.urgency ?? urgency ?? 'medium',
      expectedAction: body.expected_action,
      checksum: body.checksum,
      sent: sentIn(ctx.state.given) ?? body.context,
      schemaVersion: body.schema_version,
      targetTokens: body.target_tokens,
      idempotency,
    };
    const answer = await createHandoff(context, request, async (row, tx) => presentHandoff(await withChain(tx, row)));
    const headers = { location: `/v1/handoffs/${answer.body.id}` };
    return { ...answer, body: presentHandoffTo(caller, answer.body), headers };
  },
});

/** The context with the characters that the stored one has others for; undefined if the body had none. */
function sentIn(given: unknown): unknown {
  return typeof given === 'object' && given !== null && 'context' in given ? given.context : undefined;
}

const list = defineRoute({
  method: 'get',
  path: '/v1/handoffs',
  access: 'runs:read',
  summary: 'List handoffs, newest first',
  query: pageQuery().extend({
    task_id: idParam.optional(),
    source_agent_id: agentIdParam.optional(),
    target_agent_id: agentIdParam.optional(),
    status: listParam(z.enum(HANDOFF_STATUSES)).optional(),
  }),
  responses: { 200: pageFields('handoffs', listedHandoff) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, task_id, source_agent_id, target_agent_id, status } = query;
    const page = { taskId: task_id, sourceAgentId: source_agent_id, targetAgentId: target_agent_id, status, before };
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readHandoffs(tx, caller, { ...page, limit: limit + 1 }),
    );
    const { items, ...rest } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { handoffs: items.map(presentListed), ...rest } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/handoffs/:id',
  access: 'runs:read',
  summary: 'Get a handoff with its context and the chain that has led to it',
  params: z.strictObject({ id: idParam }),
  responses: { 200: handoff },
  async handle({ caller, params, context }) {
    const found = await context.db.withTenant(caller.tenantId, (tx) => requireHandoff(tx, caller, params.id));
    return { status: 200, body: presentHandoff(found) };
  },
});

export const HANDOFF_ROUTES: readonly Route[] = [create, list, get];
