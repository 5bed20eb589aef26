import type { Tool } from '@modelcontextprotocol/sdk/types.js';
import { impossible, messageOf } from '../../core/errors.ts';
import { categoryFrom } from '../../core/tool-categories.ts';
import { DEFAULT_RISK } from '../../core/tool.ts';
import { withSecrets } from './server.ts';
import type { McpServer, McpTransport } from './server.ts';
import type { McpConnection, McpPool } from './pool.ts';
import type { ImportedTool, ServerToList } from '../transport-kind.ts';
import type { ArgumentValidator } from '../validate-arguments.ts';

interface McpServerToList extends ServerToList<McpTransport> {
  validator: ArgumentValidator;
  onToolsChanged: () => void;
}

const LIST_MS = 30_000;
const MAX_TOOLS = 1000;
const MAX_PAGES = 100;
const MAX_MESSAGE_CHARS = 2000;

/**
 * Every tool of a server. Its word on risks and effects counts only where it is `trusted` (docs/tools.md).
 * Throws a `DroverError` (422) if the server does not start or does not answer.
 */
export async function listMcpTools(wanted: McpServerToList, pool: McpPool): Promise<ImportedTool[]> {
  const { name: serverName, tools } = await listTools(wanted, pool);
  const listed = wanted.secrets.redact(tools);
  const category = categoryFrom(wanted.secrets.redact(serverName));
  const taken = new Set<string>();
  return listed.map((tool) => ({
    ...importTool(tool, { ...wanted, category, name: uniqueName(tool.name, taken) }),
    fault: faultOf(tool, wanted.validator),
  }));
}

async function listTools(
  { tenantId, server, secrets, onToolsChanged }: McpServerToList,
  pool: McpPool,
): Promise<{ name: string; tools: Tool[] }> {
  const refuse = (what: string) => (error: unknown) => {
    throw impossible(`The MCP server ${what}: ${secrets.redact(messageOf(error)).slice(0, MAX_MESSAGE_CHARS)}`);
  };
  const running = await pool
    .acquire({ tenantId, server: withSecrets(server, secrets), onToolsChanged })
    .catch(refuse(server.type === 'mcp_stdio' ? 'did not start' : 'could not be connected to'));
  try {
    const tools = await allPages(running).catch(refuse('did not list its tools'));
    return { name: running.client.getServerVersion()?.name ?? '', tools };
  } finally {
    pool.release(running);
  }
}

async function allPages(server: McpConnection): Promise<Tool[]> {
  const tools: Tool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const listed = await server.client.listTools(cursor === undefined ? {} : { cursor }, { timeout: LIST_MS });
    tools.push(...listed.tools);
    if (tools.length > MAX_TOOLS) throw new Error(`it has more than ${MAX_TOOLS} tools`);
    cursor = listed.nextCursor;
    if (cursor === undefined) return tools;
  }
  throw new Error(`it has more than ${MAX_PAGES} pages of tools`);
}

function faultOf(tool: Tool, { checkSchema }: ArgumentValidator): string | undefined {
  const [fault] = checkSchema(tool.inputSchema);
  if (!fault) return undefined;
  return `Its input schema cannot be used: ${fault.path === '' ? '' : `${fault.path}: `}${fault.message}`;
}

function importTool(
  tool: Tool,
  {
    server,
    trusted,
    name,
    category,
  }: { server: McpServer; trusted: boolean; name: string; category: string | undefined },
): ImportedTool {
  const title = tool.title ?? tool.annotations?.title;
  return {
    name,
    ...(title === undefined ? {} : { display_name: title }),
    ...(category === undefined ? {} : { category }),
    description: tool.description ?? title ?? tool.name,
    input_schema: tool.inputSchema,
    ...(tool.outputSchema === undefined ? {} : { output_schema: tool.outputSchema }),
    transport: { ...server, tool: tool.name },
    ...(trusted ? wordOf(tool) : { risk_level: DEFAULT_RISK, annotations: {} }),
  };
}

function wordOf(tool: Tool): Pick<ImportedTool, 'risk_level' | 'annotations'> {
  const { readOnlyHint, idempotentHint, destructiveHint } = tool.annotations ?? {};
  const given = Object.entries({ readOnlyHint, idempotentHint, destructiveHint });
  return {
    // A tool that only reads destroys nothing, whatever else its server says (spec: ToolAnnotations).
    risk_level: readOnlyHint ? 'READ_ONLY' : destructiveHint ? 'WRITE_HIGH_RISK' : DEFAULT_RISK,
    annotations: Object.fromEntries(given.filter(([, value]) => value !== undefined)),
  };
}

/** A name that every model provider takes; two that become the same are numbered. */
export function uniqueName(original: string, taken: Set<string>): string {
  const plain = original.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, 64) || 'tool';
  let name = plain;
  for (let number = 2; taken.has(name); number += 1) {
    const suffix = `_${number}`;
    name = plain.slice(0, 64 - suffix.length) + suffix;
  }
  taken.add(name);
  return name;
}
