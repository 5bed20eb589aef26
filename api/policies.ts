/** Policies: versioned rules for tool calls, and a dry run of the gate. */
import { z } from 'zod';
import { LIMITS } from '../core/limits.ts';
import { RULE_DECISIONS, type PolicyDefinition } from '../core/policy.ts';
import { STAGES } from '../modules/governance/gate.ts';
import { changeRules, untilEarlierCommitsEnd } from '../modules/governance/earlier-commits.ts';
import { readPolicies, readPolicyVersions, requirePolicy } from '../modules/governance/read-policies.ts';
import { evaluatePolicies } from '../modules/governance/evaluate-policies.ts';
import { idempotently } from '../modules/tenants/idempotency.ts';
import { createPolicy, removePolicy, updatePolicy } from '../modules/governance/write-policy.ts';
import { agentIdParam } from './kit/external-ids.ts';
import { nextOf, pageFields, pageQuery } from './kit/paging.ts';
import { defineRoute, type Route } from './kit/route.ts';
import { idParam } from './kit/validate.ts';

const fields = {
  name: z.string().trim().min(1).max(100),
  priority: z.int().min(-1_000_000).max(1_000_000).describe('The lowest number is looked at first.'),
  when: z
    .string()
    .min(1)
    .max(LIMITS.celSourceChars)
    .describe('CEL over `tool`, `arguments`, `agent`, `run`, `tenant`, `user`, `risk` and `tainted_by`.'),
  decision: z.enum(RULE_DECISIONS),
  reason: z.string().min(1).max(2000).describe('The model and whoever approves are told.'),
  rewrite: z
    .strictObject({ arguments: z.record(z.string(), z.unknown()) })
    .describe('With `rewrite`: a merge patch (RFC 7396) of the arguments.'),
  four_eyes: z.boolean().describe('With `require_approval`: the key that asked for the turn may not approve.'),
};

const request = z
  .strictObject({
    ...fields,
    priority: fields.priority.default(100),
    reason: fields.reason.default('A policy says so.'),
    rewrite: fields.rewrite.nullish(),
    four_eyes: fields.four_eyes.nullish(),
  })
  .meta({ id: 'PolicyDefinition' });

const patch = z
  .strictObject({
    ...fields,
    rewrite: fields.rewrite.nullable(),
    four_eyes: fields.four_eyes.nullable(),
  })
  .partial()
  .meta({ id: 'PolicyPatch', description: 'What is absent stays; null takes a field away.' });

const definitionOut = {
  ...fields,
  name: z.string(),
  rewrite: fields.rewrite.optional(),
  four_eyes: fields.four_eyes.optional(),
};
const when = z.iso.datetime();
const policy = z
  .strictObject({
    id: z.uuid(),
    policy_id: z.uuid(),
    version: z.int(),
    ...definitionOut,
    created_at: when,
    updated_at: when,
  })
  .meta({ id: 'Policy' });
const policyVersion = z.strictObject({ version: z.int(), ...definitionOut, created_at: when });

interface Shown {
  id: string;
  version: number;
  definition: PolicyDefinition;
  created_at: Date;
  updated_at: Date;
}

function present({ id, version, definition, ...times }: Shown): z.input<typeof policy> {
  const [created_at, updated_at] = [times.created_at.toISOString(), times.updated_at.toISOString()];
  return { id, policy_id: id, version, ...definition, created_at, updated_at };
}

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/policies',
  access: 'admin',
  tenantWide: true,
  summary: 'Make a policy; it holds at once, for runs under way too',
  idempotent: true,
  body: request,
  responses: { 201: policy },
  async handle({ caller, body, context, idempotency }) {
    const answer = await idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: present(await createPolicy(tx, caller, withoutNull(body))),
    }));
    await untilEarlierCommitsEnd(context.db);
    return { ...answer, headers: { location: `/v1/policies/${answer.body.id}` } };
  },
});

/** Drops optional fields that are null. */
function withoutNull(body: z.output<typeof request>): PolicyDefinition {
  const { rewrite, four_eyes, ...rest } = body;
  return { ...rest, ...(rewrite && { rewrite }), ...(four_eyes && { four_eyes }) };
}

const list = defineRoute({
  method: 'get',
  path: '/v1/policies',
  access: 'tools:read',
  summary: 'List policies, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('policies', policy) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before } = query;
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readPolicies(tx, { before, limit }));
    return { status: 200, body: { policies: rows.map(present), ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/policies/:id',
  access: 'tools:read',
  summary: 'Get a policy',
  params: idOnly,
  responses: { 200: policy },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requirePolicy(tx, params.id));
    return { status: 200, body: present(row) };
  },
});

const versions = defineRoute({
  method: 'get',
  path: '/v1/policies/:id/versions',
  access: 'tools:read',
  summary: 'List the versions of a policy, newest first',
  params: idOnly,
  query: pageQuery(z.int32()),
  responses: { 200: pageFields('versions', policyVersion) },
  async handle({ caller, params, query, context }) {
    const { limit, cursor: before } = query;
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readPolicyVersions(tx, params.id, { before, limit }),
    );
    const page = nextOf(rows, more, ({ version }) => version);
    const shown = rows.map(({ version, definition, created_at }) => {
      return { version, ...definition, created_at: created_at.toISOString() };
    });
    return { status: 200, body: { versions: shown, ...page } };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/policies/:id',
  access: 'admin',
  tenantWide: true,
  summary: 'Publish a new version of a policy, which holds at once',
  params: idOnly,
  body: patch,
  responses: { 200: policy },
  async handle({ caller, params, body, context }) {
    const row = await changeRules(context.db, caller.tenantId, (tx) =>
      updatePolicy(tx, caller, { id: params.id, patch: body }),
    );
    return { status: 200, body: present(row) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/policies/:id',
  access: 'admin',
  tenantWide: true,
  summary: 'Take a policy away',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await changeRules(context.db, caller.tenantId, (tx) => removePolicy(tx, caller, params.id));
    return { status: 204 };
  },
});

const policyRef = z.strictObject({ id: z.uuid(), name: z.string(), version: z.int() });

const evaluate = defineRoute({
  method: 'post',
  path: '/v1/policies/evaluate',
  access: 'tools:read',
  summary: 'Say what the gate would decide about a call, without one',
  body: z.strictObject({
    tool: z.string().min(1).max(200).describe('By id or by name.'),
    arguments: z.record(z.string(), z.unknown()).default({}),
    agent_id: agentIdParam.optional().describe('Whose call it would be, by the current version; scope `agents:read`.'),
    run_id: idParam
      .optional()
      .describe('Whose call it would be, by the versions that the run has pinned; scope `runs:read`.'),
    autonomy_level: z.int().min(0).max(3).optional(),
    calls_in_turn: z.int().min(0).optional().describe('Calls of the turn before this one.'),
    tainted_by: z
      .array(z.int().min(1))
      .max(1000)
      .optional()
      .describe('Events that brought untrusted content before it.'),
  }),
  responses: {
    200: z
      .strictObject({
        decision: z.enum(RULE_DECISIONS),
        stage: z.enum(STAGES),
        policy: policyRef.nullable(),
        reason: z.string(),
        arguments: z.record(z.string(), z.unknown()),
        rewritten_by: policyRef.nullable(),
        four_eyes: z.boolean(),
        matching: z.array(
          z.strictObject({ policy: policyRef, decision: z.enum(RULE_DECISIONS), error: z.string().optional() }),
        ),
      })
      .meta({ id: 'PolicyEvaluation' }),
  },
  async handle({ caller, body, context }) {
    return { status: 200, body: await evaluatePolicies(context, caller, body) };
  },
});

/** `evaluate` comes before `:id`, which would match it. */
export const POLICY_ROUTES: readonly Route[] = [evaluate, create, list, get, versions, change, remove];
