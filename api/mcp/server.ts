/** Drover as an MCP server (spec 2025-11-25): what a client may list and call, for one request. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  CancelledNotificationSchema,
  ErrorCode,
  ListToolsRequestSchema,
  McpError,
  type CallToolResult,
  type CreateTaskResult,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { hasScope } from '../../core/scopes.ts';
import { VERSION } from '../../core/version.ts';
import { readAgentNames, readNamesakes } from '../../modules/agents/read-agents.ts';
import { namesakes } from './names.ts';
import { READ_TOOLS } from './read-tools.ts';
import { cancelCall, runTools } from './run-tools.ts';
import { readTask, serveTasks, TASKS } from './tasks.ts';
import type { McpCall, McpRequest, McpTool } from './tool-kind.ts';

/** A stateless server: each request holds all that a call needs, so any process can serve any client. */
export function createMcpServer(request: McpRequest): Server {
  const server = new Server(
    { name: 'drover', version: VERSION },
    {
      capabilities: { tools: {}, tasks: TASKS },
      instructions:
        'Each run_… tool starts a durable run of an agent. It goes on whether or not its caller waits: get_run tells how it is.',
    },
  );
  server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => {
    // The list has one page, so no cursor is valid.
    if (params?.cursor !== undefined) throw new McpError(ErrorCode.InvalidParams, 'The cursor is none of this list.');
    return { tools: (await toolsOf(request)).map(describe) };
  });
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { requestId, _meta: meta, sendNotification }) => {
    const tool = await findTool(request, params.name);
    if (!tool) throw new McpError(ErrorCode.InvalidParams, `There is no tool "${params.name}".`);
    const token = meta?.progressToken;
    const onProgress = (progress: number, message: string) => {
      const told = { progressToken: token ?? '', progress, message };
      // A client that has left is not told.
      sendNotification({ method: 'notifications/progress', params: told }).catch(() => undefined);
    };
    const hangUp = () => server.close();
    const call = { ...request, id: requestId, hangUp, onProgress: token === undefined ? undefined : onProgress };
    return params.task ? startTask(tool, call, params.arguments) : callTool(tool, call, params.arguments);
  });
  serveTasks(server, request);
  server.setNotificationHandler(CancelledNotificationSchema, async ({ params: { requestId } }) => {
    if (requestId !== undefined) await cancelCall(request, requestId);
  });
  return server;
}

async function toolsOf(request: McpRequest): Promise<McpTool[]> {
  const { context, caller } = request;
  const agents = await context.db.withTenant(caller.tenantId, (tx) => readAgentNames(tx, caller));
  return [...readTools(request), ...runTools(agents)];
}

function readTools({ caller }: McpRequest): McpTool[] {
  return READ_TOOLS.filter(({ scope }) => scope === undefined || hasScope(caller.scopes, scope));
}

/** Finds a tool by name without making those of all agents. */
async function findTool(request: McpRequest, wanted: string): Promise<McpTool | undefined> {
  const { context, caller } = request;
  const known = readTools(request).find(({ name }) => name === wanted);
  if (known || !wanted.startsWith('run_')) return known;
  const agents = await context.db.withTenant(caller.tenantId, (tx) => readNamesakes(tx, caller, namesakes(wanted)));
  return runTools(agents).find(({ name }) => name === wanted);
}

function describe({ name, description, input, start }: McpTool): Tool {
  return { name, description, inputSchema: schemaOf(input), ...(start && { execution: { taskSupport: 'optional' } }) };
}

/** A cache: all agents share one input schema, which takes a millisecond to convert. */
const schemas = new WeakMap<z.ZodType, Tool['inputSchema']>();

function schemaOf(input: z.ZodType): Tool['inputSchema'] {
  const schema = schemas.get(input) ?? (z.toJSONSchema(input, { io: 'input' }) as Tool['inputSchema']);
  schemas.set(input, schema);
  return schema;
}

/** Starts a call as a task. A refusal is a protocol error, since there is no task that could fail. */
async function startTask(tool: McpTool, call: McpCall, args: unknown): Promise<CreateTaskResult> {
  if (!tool.start) throw new McpError(ErrorCode.MethodNotFound, `The tool "${tool.name}" makes no tasks.`);
  const parsed = tool.input.safeParse(args ?? {});
  if (!parsed.success) throw new McpError(ErrorCode.InvalidParams, z.prettifyError(parsed.error));
  try {
    return { task: await readTask(call, await tool.start(call, parsed.data)) };
  } catch (error) {
    if (error instanceof DroverError && error.status < 500)
      throw new McpError(ErrorCode.InvalidParams, `${error.code}: ${error.message}`);
    throw faultOf(call, tool, error);
  }
}

/** Logs a fault of ours, and tells the client nothing about it. */
function faultOf({ context }: McpCall, { name: tool }: McpTool, error: unknown): McpError {
  context.log.error({ err: error, tool }, 'a call over MCP failed');
  return new McpError(ErrorCode.InternalError, 'Something went wrong here.');
}

/** Calls a tool. Mistakes in the request are results, which a model can read and correct; our own faults are errors. */
async function callTool(tool: McpTool, call: McpCall, args: unknown): Promise<CallToolResult> {
  const parsed = tool.input.safeParse(args ?? {});
  if (!parsed.success) return refused('invalid-arguments', z.prettifyError(parsed.error));
  try {
    return await tool.call(call, parsed.data);
  } catch (error) {
    if (error instanceof DroverError && error.status < 500) return refused(error.code, error.message);
    throw faultOf(call, tool, error);
  }
}

function refused(code: string, message: string): CallToolResult {
  return { content: [{ type: 'text', text: `${code}: ${message}` }], isError: true };
}
