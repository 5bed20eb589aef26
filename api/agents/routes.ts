import { z } from 'zod';
import { agentDefinition } from '../../core/definition.ts';
import { isBuiltinAgent, refuseBuiltinAgent } from '../../modules/agents/builtin-agent.ts';
import { checkOutputSchemas } from '../../modules/agents/check-agent.ts';
import { createNamedAgent, putAgent, renameAgent } from '../../modules/agents/external-ids.ts';
import { toMermaid } from '../../core/graph/mermaid.ts';
import {
  readAgents,
  readAgentVersions,
  readGraph,
  requireAgent,
  requireAgentVersion,
} from '../../modules/agents/read-agents.ts';
import { embedSoon } from '../../modules/memory/add-memory.ts';
import { idempotently } from '../../modules/tenants/idempotency.ts';
import { setSuspension } from '../../modules/governance/suspend.ts';
import { retireAgent, updateAgent } from '../../modules/agents/update-agent.ts';
import { nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { defineRoute } from '../kit/route.ts';
import type { Route } from '../kit/route.ts';
import { agentIdParam, externalIdParam } from '../kit/external-ids.ts';
import { metadataFilter } from '../kit/metadata-filter.ts';
import {
  agent,
  agentGraph,
  agentPatch,
  agentRequest,
  agentVersion,
  builtinAgent,
  createdAgent,
  presentAgent,
  presentAgentTo,
  presentBuiltinPlanner,
  presentCreated,
  presentVersion,
} from './schemas.ts';

const idOnly = z.strictObject({ id: agentIdParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/agents',
  access: 'agents:write',
  summary: 'Register an agent',
  idempotent: true,
  body: agentRequest,
  responses: { 201: createdAgent },
  async handle({ caller, body: { external_id: externalId, ...definition }, context, idempotency }) {
    checkOutputSchemas(context.tools.validator, definition);
    const answer = await idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: presentCreated(await createNamedAgent(tx, caller, { definition, externalId })),
    }));
    return { ...answer, headers: { location: `/v1/agents/${answer.body.id}` } };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/agents',
  access: 'agents:read',
  summary: 'List the agents of the workspace, newest first',
  query: pageQuery().extend({ status: agent.shape.status.optional(), ...metadataFilter }),
  responses: { 200: pageFields('agents', agent) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, status, metadata } = query;
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readAgents(tx, caller, { before, limit, status, metadata }),
    );
    return { status: 200, body: { agents: rows.map(presentAgent), ...nextOf(rows, more, ({ id }) => id) } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/agents/:id',
  access: 'agents:read',
  summary: 'Get an agent with its current definition',
  params: idOnly,
  responses: { 200: z.union([agent, builtinAgent]) },
  async handle({ caller, params, context }) {
    if (isBuiltinAgent(params.id)) return { status: 200, body: presentBuiltinPlanner() };
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireAgent(tx, caller, params.id));
    return { status: 200, body: presentAgent(row) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/agents/:id',
  access: 'agents:write',
  summary: 'Publish a new version of an agent, or suspend it; a key that may not read it is told which version',
  params: idOnly,
  body: agentPatch,
  responses: { 200: z.union([agent, createdAgent]) },
  async handle({ caller, params, body, context }) {
    refuseBuiltinAgent(params.id);
    const { suspended, external_id: externalId, ...patch } = body;
    checkOutputSchemas(context.tools.validator, patch);
    await context.db.withTenant(caller.tenantId, async (tx) => {
      if (Object.keys(patch).length > 0) await updateAgent(tx, caller, { id: params.id, patch });
      if (externalId !== undefined) await renameAgent(tx, caller, { id: params.id, externalId });
    });
    // Its embedding model may have changed.
    if (patch.memory_config !== undefined) embedSoon(context, { tenantId: caller.tenantId, agentId: params.id });
    if (suspended !== undefined) await setSuspension(context, caller, { kind: 'agent', id: params.id, suspended });
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireAgent(tx, caller, params.id));
    return { status: 200, body: presentAgentTo(caller, row) };
  },
});

const replace = defineRoute({
  method: 'put',
  path: '/v1/agents/:id',
  access: 'agents:write',
  summary: 'Register an agent under `ext:<id>`, or publish what has changed of it; the same content changes nothing',
  params: z.strictObject({ id: externalIdParam }),
  body: agentDefinition,
  responses: { 200: z.union([agent, createdAgent]), 201: createdAgent },
  async handle({ caller, params: { id: externalId }, body: definition, context }) {
    checkOutputSchemas(context.tools.validator, definition);
    const { agent: row, isNew } = await context.db.withTenant(caller.tenantId, (tx) =>
      putAgent(tx, caller, { definition, externalId }),
    );
    if (isNew) return { status: 201, body: presentCreated(row), headers: { location: `/v1/agents/${row.id}` } };
    embedSoon(context, { tenantId: caller.tenantId, agentId: row.id });
    return { status: 200, body: presentAgentTo(caller, row) };
  },
});

const retire = defineRoute({
  method: 'delete',
  path: '/v1/agents/:id',
  access: 'agents:write',
  summary: 'Deprecate an agent: no new runs, no new versions',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    refuseBuiltinAgent(params.id);
    await context.db.withTenant(caller.tenantId, (tx) => retireAgent(tx, caller, params.id));
    return { status: 204 };
  },
});

const versions = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/versions',
  access: 'agents:read',
  summary: 'List the versions of an agent, newest first',
  params: idOnly,
  query: pageQuery(z.int32().min(1)),
  responses: { 200: pageFields('versions', agentVersion) },
  async handle({ caller, params, query, context }) {
    const { limit, cursor: before } = query;
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      readAgentVersions(tx, caller, { agentId: params.id, before, limit }),
    );
    const page = nextOf(rows, more, ({ ordinal }) => ordinal);
    return { status: 200, body: { versions: rows.map(presentVersion), ...page } };
  },
});

const version = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/versions/:version',
  access: 'agents:read',
  summary: 'Get one version of an agent',
  params: z.strictObject({ id: agentIdParam, version: z.string().max(50) }),
  responses: { 200: agentVersion },
  async handle({ caller, params, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) =>
      requireAgentVersion(tx, caller, { agentId: params.id, version: params.version }),
    );
    return { status: 200, body: presentVersion(row) };
  },
});

const graph = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/graph',
  access: 'agents:read',
  summary: "Get an agent's graph, as JSON or as a picture",
  params: idOnly,
  query: z.strictObject({
    version: z.string().max(50).optional(),
    format: z.enum(['json', 'mermaid']).optional().describe('`mermaid` answers `text/plain`.'),
  }),
  responses: { 200: { contentType: 'text/plain', description: 'The graph; as text in Mermaid', json: agentGraph } },
  async handle({ caller, params, query, context }) {
    const found = await context.db.withTenant(caller.tenantId, (tx) =>
      readGraph(tx, caller, { agentId: params.id, version: query.version }),
    );
    if (query.format !== 'mermaid') return { status: 200, body: found };
    return { status: 200, body: toMermaid(found), headers: { 'content-type': 'text/plain; charset=utf-8' } };
  },
});

export const AGENT_ROUTES: readonly Route[] = [create, list, get, change, replace, retire, versions, version, graph];
