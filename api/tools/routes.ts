import { z } from 'zod';
import { impossible } from '../../core/errors.ts';
import { executeTool } from '../../modules/tool-calls/execute-tool.ts';
import { idempotently, recallAnswer } from '../../modules/tenants/idempotency.ts';
import { askServer, findImportedServer, importTools } from '../../modules/tools-registry/import-tools.ts';
import { listAllTools, parseFilter, requireTool } from '../../modules/tools-registry/read-tools.ts';
import { confirmProposal } from '../../modules/tools-registry/detect-tool-drift.ts';
import { checkMayRunPrograms, registerTool } from '../../modules/tools-registry/register-tool.ts';
import { changeRules } from '../../modules/governance/earlier-commits.ts';
import { setSuspension } from '../../modules/governance/suspend.ts';
import { putTool, removeTool, updateTool } from '../../modules/tools-registry/update-tool.ts';
import { BUILTIN_TOOLS } from '../../tools/builtin.ts';
import { presentServer } from '../../tools/transports.ts';
import { listParam, nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { defineRoute } from '../kit/route.ts';
import type { Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import {
  createdTool,
  imported,
  importRequest,
  listedTool,
  presentCreated,
  presentImportedTo,
  presentListedTool,
  presentTool,
  presentToolTo,
  tool,
  toolContent,
  toolName,
  toolPatch,
  toolRequest,
} from './schemas.ts';

const idOnly = z.strictObject({ id: idParam });

const create = defineRoute({
  method: 'post',
  path: '/v1/tools',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Register a tool',
  idempotent: true,
  body: toolRequest,
  responses: { 201: createdTool },
  async handle({ caller, body, context, idempotency }) {
    const answer = await idempotently(context, idempotency, async (tx) => ({
      status: 201,
      body: presentCreated(await registerTool(tx, { caller, tools: context.tools }, body)),
    }));
    return { ...answer, headers: { location: `/v1/tools/${answer.body.id}` } };
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/tools',
  access: 'tools:read',
  summary: 'List tools: built-in ones, then the registered ones, newest first',
  query: pageQuery().extend({
    filter: listParam(z.string()).optional().describe('`builtin:true`, `builtin:false`, `name:…`'),
    capabilities: listParam(z.string().min(1).max(200))
      .optional()
      .describe('Permissions that the tool needs, all of them.'),
  }),
  responses: { 200: pageFields('tools', listedTool) },
  async handle({ caller, query, context }) {
    const { limit, cursor: after, capabilities: permissions } = query;
    const filter = parseFilter(query.filter ?? []);
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) =>
      listAllTools(tx, { after, limit, filter, permissions }),
    );
    const page = nextOf(rows, more, ({ definition }) => definition.id);
    return {
      status: 200,
      body: { tools: rows.map(({ definition, row }) => presentListedTool(definition, row)), ...page },
    };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/tools/:id',
  access: 'tools:read',
  summary: 'Get a tool',
  params: idOnly,
  responses: { 200: tool },
  async handle({ caller, params, context }) {
    const builtin = BUILTIN_TOOLS.find(({ id }) => id === params.id);
    if (builtin) return { status: 200, body: presentTool(builtin) };
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireTool(tx, params.id));
    return { status: 200, body: presentTool(row.definition, row) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/tools/:id',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Publish a new version of a tool, or suspend it; a key that may not read it is told which version',
  params: idOnly,
  body: toolPatch,
  responses: { 200: z.union([tool, createdTool]) },
  async handle({ caller, params, body, context }) {
    const { id } = params;
    const { suspended, ...patch } = body;
    if (suspended === undefined || Object.keys(patch).length > 0) {
      const by = { caller, tools: context.tools };
      await changeRules(context.db, caller.tenantId, (tx) => updateTool(tx, by, { id, patch }));
    }
    if (suspended === false) await context.db.withTenant(caller.tenantId, (tx) => confirmProposal(tx, caller, id));
    if (suspended !== undefined) await setSuspension(context, caller, { kind: 'tool', id, suspended });
    const row = await context.db.withTenant(caller.tenantId, (tx) => requireTool(tx, id));
    return { status: 200, body: presentToolTo(caller, row) };
  },
});

const replace = defineRoute({
  method: 'put',
  path: '/v1/tools/:id',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Register a tool under its name, or publish what has changed of it; the same content changes nothing',
  // A UUID is no name here, as in agents' paths.
  params: z.strictObject({ id: toolName.refine((name) => !idParam.safeParse(name).success) }),
  body: toolContent.extend({ name: z.string().optional().describe('As in the path.') }),
  responses: { 200: z.union([tool, createdTool]), 201: createdTool },
  async handle({ caller, params: { id: name }, body, context }) {
    if (body.name !== undefined && body.name !== name) {
      const message = `must be ${name}, as in the path`;
      throw impossible(`body.name ${message}.`, [{ path: 'body.name', message }]);
    }
    const by = { caller, tools: context.tools };
    const { tool: row, isNew } = await changeRules(context.db, caller.tenantId, (tx) =>
      putTool(tx, by, { ...body, name }),
    );
    if (isNew) return { status: 201, body: presentCreated(row), headers: { location: `/v1/tools/${row.id}` } };
    return { status: 200, body: presentToolTo(caller, row) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/tools/:id',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Take a tool out of the registry',
  params: idOnly,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    await changeRules(context.db, caller.tenantId, (tx) => removeTool(tx, caller, params.id));
    return { status: 204 };
  },
});

const execute = defineRoute({
  method: 'post',
  path: '/v1/tools/:id/execute',
  access: 'tools:execute',
  summary: 'Call a tool once, outside any run',
  idempotent: true,
  params: idOnly,
  body: z.strictObject({
    input: z.record(z.string(), z.unknown()).default({}),
    timeout_ms: z.int().min(1).max(600_000).nullable().optional(),
  }),
  responses: {
    200: z.strictObject({
      status: z.enum(['success', 'error']),
      output: z.unknown(),
      latency_ms: z.int(),
      error: z.strictObject({ code: z.string(), message: z.string() }).optional(),
    }),
  },
  async handle({ caller, params, body, context, idempotency, ctx, app }) {
    return executeTool(context, caller, {
      id: params.id,
      input: body.input,
      timeoutMs: body.timeout_ms ?? undefined,
      idempotency,
      traceparent: ctx.state.traceparent,
      signal: app.closing,
    });
  },
});

const importAll = defineRoute({
  method: 'post',
  path: '/v1/tools/import',
  access: 'tools:write',
  tenantWide: true,
  summary: 'Register the tools of an MCP server',
  idempotent: true,
  body: importRequest,
  responses: { 201: imported },
  async handle({ caller, body, context, idempotency }) {
    const { transport: server, trusted = false, ...choice } = body;
    checkMayRunPrograms(server, caller);
    // The server is asked before the transaction, which must not wait for it; not at all for a repeated request.
    const earlier = await recallAnswer(context, idempotency);
    if (earlier) return earlier;
    const found = await askServer(context, caller, { server, trusted });
    return idempotently(context, idempotency, async (tx) => {
      const { rows, skipped } = await importTools(tx, caller, { found, choice });
      const { id, transport } = await findImportedServer(tx, found[0]?.transport ?? server);
      const place = { id, transport: presentServer(transport) };
      const named = choice.name === undefined ? place : { ...place, name: choice.name };
      return {
        status: 201,
        body: { server: named, tools: rows.map((row) => presentImportedTo(caller, row)), skipped },
      };
    });
  },
});

/** `import` comes before `:id`, which would match it. */
export const TOOL_ROUTES: readonly Route[] = [importAll, create, list, get, change, replace, remove, execute];
