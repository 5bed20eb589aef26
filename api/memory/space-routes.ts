/** Shared memory. */
import { z } from 'zod';
import { CONFLICT_CHECKS } from '../../core/memory/entry.ts';
import { createSpace, readSpaces, removeFragment, requireFragment, requireSpace } from '../../modules/memory/spaces.ts';
import { embedFragmentsSoon } from '../../modules/memory/embed-fragments.ts';
import { resolveFragment } from '../../modules/memory/resolve-fragment.ts';
import { inLine, writeToSpace } from '../../modules/memory/write-fragment.ts';
import { searchSpace } from '../../modules/memory/search-space.ts';
import { idempotently } from '../../modules/tenants/idempotency.ts';
import { integerParam, nextOf, pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { agentNameParam, nameOrId } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam, timeParam } from '../kit/validate.ts';
import {
  anyContent,
  fragment,
  name,
  presentFragment,
  presentFragmentTo,
  presentSpace,
  space,
  visibility,
} from './space-schemas.ts';

const named = z.array(agentNameParam).max(1000);

const create = defineRoute({
  method: 'post',
  path: '/v1/memory/spaces',
  access: 'memory:write',
  summary: 'Make a space that agents share',
  idempotent: true,
  body: z.strictObject({
    name: name.optional(),
    team_id: nameOrId.nullish(),
    workflow_id: nameOrId.nullish(),
    scope: visibility.default('team'),
    allowed_agents: named.optional(),
    denied_agents: named.optional(),
    max_fragments: z.int().min(1).max(1_000_000).nullish(),
    retention_policy: z
      .string()
      .max(200)
      .nullish()
      .describe('`30d`, `6 months` or `P30D` after the last write; any other is a name.'),
    conflict_check: z
      .enum(CONFLICT_CHECKS)
      .default('off')
      .describe('Whether what is written is held against what is there.'),
  }),
  responses: { 201: space },
  async handle({ caller, body, context, idempotency }) {
    return idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: presentSpace(await createSpace(tx, caller, body)),
    }));
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/memory/spaces',
  access: 'memory:read',
  summary: 'List the spaces of the workspace, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('spaces', space) },
  async handle({ caller, query: { limit, cursor: before }, context }) {
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readSpaces(tx, caller, { before, limit: limit + 1 }),
    );
    const { items, ...next } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { spaces: items.map(presentSpace), ...next } };
  },
});

const getSpace = defineRoute({
  method: 'get',
  path: '/v1/memory/spaces/:id',
  access: 'memory:read',
  summary: 'Get a space',
  params: z.strictObject({ id: idParam }),
  responses: { 200: space },
  async handle({ caller, params: { id }, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireSpace(tx, caller, id));
    return { status: 200, body: presentSpace(row) };
  },
});

const provenance = z.strictObject({
  created_by_agent: nameOrId.optional(),
  created_during_task: nameOrId.nullish(),
  confidence: z.number().min(0).max(1).optional(),
  sources: z.array(z.string().max(2000)).max(100).optional(),
});

const written = fragment.extend({
  merged: z.boolean().describe('It was merged with what others had written since `base_version`.'),
  conflicts: z.array(z.string()).describe('What both sides have changed in different ways, as paths.'),
});

const write = defineRoute({
  method: 'post',
  path: '/v1/memory/write',
  access: 'memory:write',
  summary: 'Write a fragment into a space, or its next version',
  idempotent: true,
  body: z.strictObject({
    space_id: idParam,
    fragment_id: idParam.optional(),
    content: anyContent,
    agent_id: agentNameParam.optional().describe('Who acts.'),
    visibility: visibility.optional(),
    access_control: z
      .strictObject({
        visibility: visibility.optional(),
        allowed_agents: named.optional(),
        denied_agents: named.optional(),
      })
      .optional(),
    allowed_agents: named.optional(),
    denied_agents: named.optional(),
    expected_version: z.int().min(0).optional(),
    base_version: z.int().min(1).optional(),
    conflict_type: z.enum(['concurrent_write', 'version_mismatch', 'semantic_conflict']).optional(),
    provenance: provenance.optional(),
    lifecycle: z
      .strictObject({ expires_at: timeParam.nullish(), retention_policy: z.string().max(200).nullish() })
      .optional(),
    retention_policy: z.string().max(200).optional(),
    expires_at: timeParam.optional(),
  }),
  responses: { 201: written },
  async handle({ caller, body, context, idempotency }) {
    const { access_control: access = {}, lifecycle = {}, ...rest } = body;
    const asked = {
      ...rest,
      content: { type: body.content.type, data: body.content.data, embedding: body.content.embedding },
      agent_id: body.agent_id ?? body.provenance?.created_by_agent,
      visibility: body.visibility ?? access.visibility,
      allowed_agents: body.allowed_agents ?? access.allowed_agents,
      denied_agents: body.denied_agents ?? access.denied_agents,
      expires_at: body.expires_at ?? lifecycle.expires_at ?? undefined,
      retention_policy: body.retention_policy ?? lifecycle.retention_policy ?? undefined,
    };
    const { tenantId } = caller;
    const answer = await inLine(context.fragmentWriters, { tenantId, fragmentId: asked.fragment_id }, () =>
      idempotently(context, idempotency, async (tx) => {
        const { fragment: row, merged, conflicts } = await writeToSpace(tx, caller, asked);
        return { status: 201, body: { ...presentFragment(row), merged, conflicts } };
      }),
    );
    embedFragmentsSoon(context, { tenantId, spaceId: asked.space_id });
    return { ...answer, body: { ...answer.body, ...presentFragmentTo(caller, answer.body) } };
  },
});

const found = fragment.extend({ relevance_score: z.number() });

const search = defineRoute({
  method: 'get',
  path: '/v1/memory/search',
  access: 'memory:read',
  summary: 'Search a space, or all that let the agent in, by words and meaning; without a query the newest fragments',
  query: z.strictObject({
    space_id: idParam.optional(),
    query: z.string().trim().min(1).max(5000).optional(),
    limit: integerParam({ min: 1, max: 200 }).default(10),
    min_relevance: z
      .string()
      .regex(/^(0(\.\d+)?|1(\.0+)?)$/, 'must be a number from 0 to 1')
      .transform(Number)
      .default(0.7),
    agent_id: agentNameParam.optional().describe('Who asks: only what it may see.'),
  }),
  responses: { 200: z.object({ fragments: z.array(found) }) },
  async handle({ caller, query: asked, context }) {
    const { space_id: spaceId, query: text, limit, min_relevance: minRelevance, agent_id: agentId } = asked;
    const hits = await searchSpace(context, caller, { spaceId, text, agentId, limit, minRelevance });
    const fragments = hits.map((hit) => ({ ...presentFragment(hit.fragment), relevance_score: hit.relevance }));
    return { status: 200, body: { fragments } };
  },
});

const params = z.strictObject({ id: idParam });
const version = z.object({
  version: z.int(),
  content: z.looseObject({ type: z.string() }),
  provenance: z.record(z.string(), z.unknown()),
  created_at: z.iso.datetime(),
});

const get = defineRoute({
  method: 'get',
  path: '/v1/memory/fragments/:id',
  access: 'memory:read',
  summary: 'Get a fragment with its versions, page by page',
  params,
  query: pageQuery(z.int().positive()),
  responses: {
    200: fragment.extend({
      access_count: z.int(),
      history: z
        .array(version)
        .describe('Its versions, newest first: as many as are asked for and have room on a page.'),
      next_cursor: z.string().optional().describe('For the versions before those.'),
    }),
  },
  async handle({ caller, params: { id }, query: { cursor: below, limit }, context }) {
    const {
      fragment: row,
      uses,
      history: { rows, more },
    } = await context.db.withTenant(caller.tenantId, (tx) => requireFragment(tx, caller, { id, below, limit }));
    const history = rows.map(({ version: number, content: of, provenance: from, created_at: at }) => ({
      version: number,
      content: { ...of },
      provenance: from,
      created_at: at.toISOString(),
    }));
    const next = nextOf(rows, more, (each) => each.version);
    return { status: 200, body: { ...presentFragment(row), access_count: uses, history, ...next } };
  },
});

const resolve = defineRoute({
  method: 'post',
  path: '/v1/memory/fragments/:id/resolve',
  access: 'memory:write',
  summary: 'Decide what a fragment with a conflict says from now on',
  params,
  body: z.strictObject({ content: anyContent, agent_id: agentNameParam.optional() }),
  responses: { 200: fragment },
  async handle({ caller, params: { id }, body, context }) {
    const { type, data } = body.content;
    const asked = { id, content: { type, data }, agentId: body.agent_id, settles: true };
    const row = await context.db.withTenant(caller.tenantId, (tx) => resolveFragment(tx, caller, asked));
    embedFragmentsSoon(context, { tenantId: caller.tenantId, spaceId: row.space_id });
    return { status: 200, body: presentFragmentTo(caller, presentFragment(row)) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/memory/fragments/:id',
  access: 'memory:write',
  summary: 'Forget a fragment with all of its versions',
  params,
  responses: { 204: 'empty' },
  async handle({ caller, params: { id }, context }) {
    await context.db.withTenant(caller.tenantId, (tx) => removeFragment(tx, caller, id));
    return { status: 204 };
  },
});

export const SPACE_ROUTES: readonly Route[] = [create, list, getSpace, write, search, get, resolve, remove];
