import { z } from 'zod';
import { hasScope } from '../../core/scopes.ts';
import {
  readToolServers,
  requireToolServer,
  type ToolServerRow,
} from '../../modules/tools-registry/read-tool-servers.ts';
import { setSuspension } from '../../modules/governance/suspend.ts';
import { presentServer } from '../../tools/transports.ts';
import { pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute } from '../kit/route.ts';
import type { Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';

const idOnly = z.strictObject({ id: idParam });

const server = z
  .strictObject({
    id: z.uuid(),
    transport: z.looseObject({ type: z.string() }).describe('Where it is: an endpoint, or a program.'),
    tools: z.array(z.strictObject({ id: z.uuid(), name: z.string() })).describe('Registered tools that are there.'),
    suspended: z.boolean(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: 'McpServer' });

const list = defineRoute({
  method: 'get',
  path: '/v1/mcp-servers',
  access: 'tools:read',
  summary: 'List the MCP servers of the registered tools, newest first',
  query: pageQuery(),
  responses: { 200: pageFields('mcp_servers', server) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readToolServers(tx, { before, limit: limit + 1 }),
    );
    const { items, ...page } = pageOf(rows, limit, ({ id }) => id);
    return { status: 200, body: { mcp_servers: items.map(present), ...page } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/mcp-servers/:id',
  access: 'tools:read',
  summary: 'Get an MCP server',
  params: idOnly,
  responses: { 200: server },
  async handle({ caller, params: { id }, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireToolServer(tx, id));
    return { status: 200, body: present(row) };
  },
});

const suspension = defineRoute({
  method: 'patch',
  path: '/v1/mcp-servers/:id',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Suspend an MCP server, all its tools at once, or lift that; 204 for a key that may not read it',
  params: idOnly,
  body: z.strictObject({ suspended: z.boolean() }),
  responses: { 200: server, 204: 'empty' },
  async handle({ caller, params: { id }, body: { suspended }, context }) {
    await setSuspension(context, caller, { kind: 'mcp_server', id, suspended });
    if (!hasScope(caller.scopes, 'tools:read')) return { status: 204 };
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireToolServer(tx, id));
    return { status: 200, body: present(row) };
  },
});

function present({ id, address, tools, suspended, created_at }: ToolServerRow): z.input<typeof server> {
  return { id, transport: presentServer(address), tools, suspended, created_at: created_at.toISOString() };
}

export const MCP_SERVER_ROUTES: readonly Route[] = [list, get, suspension];
