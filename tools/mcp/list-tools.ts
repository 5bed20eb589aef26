import { PaginatedResultSchema, ToolSchema, type Tool } from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';
import { beginningOf } from '../../core/content.ts';
import { impossible } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { categoryFrom } from '../../core/tool-categories.ts';
import { bytesOf } from '../../core/tool-output.ts';
import { DEFAULT_RISK } from '../../core/tool.ts';
import { uniqueName } from '../unique-name.ts';
import { UnusableListError } from '../unusable-list-error.ts';
import { isSessionGone } from './refusals.ts';
import { wordsOfFailure } from './refusal-words.ts';
import { withSecrets } from './server.ts';
import type { McpServer, McpTransport } from './server.ts';
import { SENT_TOO_MANY, type McpConnection, type McpPool } from './pool.ts';
import type { ImportedTool, ServerToList } from '../transport-kind.ts';

interface McpServerToList extends ServerToList<McpTransport> {
  onToolsChanged: () => void;
}

const LIST_MS = 30_000;
const MAX_TOOLS = 1000;
const MAX_PAGES = 100;
/** For all pages together, as JSON. */
const MAX_BYTES = LIMITS.toolOutputBytes;
/** As many as a tool registered by hand may have. */
const MAX_DESCRIPTION_CHARS = 20_000;
const MAX_MESSAGE_CHARS = 2000;

const text = z.string().optional().catch(undefined);
const schema = z.record(z.string(), z.unknown());
const named = z.looseObject({ name: z.string() });
/** Tools are parsed one by one, so that a bad one does not spoil the others. */
const list = PaginatedResultSchema.extend({ tools: z.array(named) });
type Named = z.output<typeof named>;
/** The readable parts of a bad tool: if it is registered, it has changed. */
const wrong = named.extend({
  title: text,
  description: text,
  inputSchema: schema.catch({}),
  outputSchema: schema.optional().catch(undefined),
});
type ListedTool = Pick<Tool, 'name' | 'title' | 'description' | 'annotations' | 'execution'> &
  Pick<z.output<typeof wrong>, 'inputSchema' | 'outputSchema'>;

/**
 * Lists all tools of a server. Its word on risks and effects counts only if it is `trusted` (docs/tools.md). Throws a
 * `DroverError` (422) if the server does not start or answer.
 */
export async function listMcpTools(wanted: McpServerToList, pool: McpPool): Promise<ImportedTool[]> {
  const { name: serverName, tools } = await listTools(wanted, pool);
  const listed = wanted.secrets.redact(tools).map(readTool);
  const category = categoryFrom(wanted.secrets.redact(serverName));
  const taken = new Set<string>();
  return listed.map(({ tool, fault }) => ({
    ...importTool(tool, { ...wanted, category, name: uniqueName(tool.name, taken) }),
    fault: fault ?? faultOf(tool),
  }));
}

async function listTools(
  wanted: McpServerToList,
  pool: McpPool,
  isNewSession = false,
): Promise<{ name: string; tools: Named[] }> {
  const { tenantId, server, secrets, onToolsChanged } = wanted;
  const refusal = (what: string, error: unknown) =>
    impossible(`The MCP server ${what}: ${secrets.redact(wordsOfFailure(error)).slice(0, MAX_MESSAGE_CHARS)}`);
  const target = { tenantId, server: withSecrets(server, secrets), onToolsChanged };
  const running = await pool.acquire(target).catch((error: unknown) => {
    throw refusal(server.type === 'mcp_stdio' ? 'did not start' : 'could not be connected to', error);
  });
  try {
    return { name: running.client.getServerVersion()?.name ?? '', tools: await allPages(running) };
  } catch (error) {
    if (running.sentTooMany()) throw refusal('did not list its tools', new Error(SENT_TOO_MANY));
    if (isUnusable(error) || running.sentTooMuch())
      throw new UnusableListError(refusal('did not list its tools', error), error);
    if (isNewSession || !isSessionGone(error, running)) throw refusal('did not list its tools', error);
    pool.discard(running);
  } finally {
    pool.release(running);
  }
  return listTools(wanted, pool, true);
}

/** Whether the list has come, and is too long or none: errors of its schema have `issues`. */
function isUnusable(error: unknown): boolean {
  return error instanceof TooLongError || (error instanceof Error && 'issues' in error);
}

class TooLongError extends Error {}

async function allPages(server: McpConnection): Promise<Named[]> {
  const tools: Named[] = [];
  let cursor: string | undefined;
  let bytes = 0;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const request = { method: 'tools/list', params: cursor === undefined ? {} : { cursor } };
    const listed = await server.client.request(request, list, { timeout: LIST_MS });
    tools.push(...listed.tools);
    bytes += bytesOf(listed.tools);
    if (bytes > MAX_BYTES) throw new TooLongError(`its tools come to more than ${MAX_BYTES} bytes`);
    if (tools.length > MAX_TOOLS) throw new TooLongError(`it has more than ${MAX_TOOLS} tools`);
    cursor = listed.nextCursor;
    if (cursor === undefined) return tools;
  }
  throw new TooLongError(`it has more than ${MAX_PAGES} pages of tools`);
}

const SCHEMAS: Readonly<Record<string, string>> = { inputSchema: 'input schema', outputSchema: 'output schema' };

function readTool(listed: Named): { tool: ListedTool; fault?: string } {
  const { data: tool, error } = ToolSchema.safeParse(listed);
  if (tool) return { tool };
  const { path = [], message = '' } = error.issues[0] ?? {};
  const part = SCHEMAS[String(path[0])];
  const at = path.slice(part === undefined ? 0 : 1).join('/');
  const { name, title, description, inputSchema, outputSchema } = wrong.parse(listed);
  return {
    tool: { name, title, description, inputSchema, outputSchema },
    fault: `Its ${part ?? 'definition'} cannot be used: ${at === '' ? '' : `${at}: `}${message}`,
  };
}

function faultOf(tool: ListedTool): string | undefined {
  return tool.execution?.taskSupport === 'required'
    ? 'Its server takes calls of it as tasks alone, which Drover does not make.'
    : undefined;
}

function importTool(
  tool: ListedTool,
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
    description: beginningOf(tool.description ?? title ?? tool.name, MAX_DESCRIPTION_CHARS),
    input_schema: tool.inputSchema,
    ...(tool.outputSchema === undefined ? {} : { output_schema: tool.outputSchema }),
    transport: { ...server, tool: tool.name },
    ...(trusted ? wordOf(tool) : { risk_level: DEFAULT_RISK, annotations: {} }),
  };
}

function wordOf(tool: ListedTool): Pick<ImportedTool, 'risk_level' | 'annotations'> {
  const { readOnlyHint, idempotentHint, destructiveHint, openWorldHint } = tool.annotations ?? {};
  const given = Object.entries({ readOnlyHint, idempotentHint, destructiveHint, openWorldHint });
  return {
    // A tool that only reads destroys nothing, whatever its other hints say (spec: ToolAnnotations).
    risk_level: readOnlyHint ? 'READ_ONLY' : destructiveHint ? 'WRITE_HIGH_RISK' : DEFAULT_RISK,
    annotations: Object.fromEntries(given.filter(([, value]) => value !== undefined)),
  };
}
