/** Tools of MCP servers that run as child processes (spec 2025-11-25, stdio). */
import { CallToolResultSchema, ErrorCode, McpError } from '@modelcontextprotocol/sdk/types.js';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { ToolAttempt, ToolOutcome, ToolTransport } from '../core/tool.ts';
import { raceSignal, startDeadline } from './deadline.ts';
import type { Deadline } from './deadline.ts';
import type { McpPool, RunningServer } from './mcp-pool.ts';
import { parseOrText } from './response-body.ts';

export type StdioTransport = Extract<ToolTransport, { type: 'mcp_stdio' }>;

/** One attempt of a tool `name` at its server, which is started where it does not run. Never throws. */
export async function callMcpTool(
  call: { transport: StdioTransport; name: string },
  attempt: ToolAttempt,
  pool: McpPool,
): Promise<ToolOutcome> {
  const deadline = startDeadline(attempt.timeoutMs, attempt.signal);
  try {
    const server = await acquire(pool, call.transport, deadline);
    if ('kind' in server) return server;
    try {
      return await request(server, call, { attempt, deadline });
    } finally {
      pool.release(server);
    }
  } finally {
    deadline.clear();
  }
}

async function acquire(
  pool: McpPool,
  transport: StdioTransport,
  deadline: Deadline,
): Promise<RunningServer | ToolOutcome> {
  const acquired = pool.acquire(transport);
  try {
    return await raceSignal(acquired, deadline.signal);
  } catch (error) {
    // It may yet start: for the next call.
    acquired.then((server) => pool.release(server)).catch(() => undefined);
    if (deadline.ended() === 'aborted') return { kind: 'aborted', code: 'aborted', message: 'The call was aborted.' };
    return { kind: 'unreached', code: 'server-start', message: `The tool's server did not start: ${messageOf(error)}` };
  }
}

interface Running {
  attempt: ToolAttempt;
  deadline: Deadline;
}

async function request(
  server: RunningServer,
  call: { transport: StdioTransport; name: string },
  { attempt, deadline }: Running,
): Promise<ToolOutcome> {
  if (deadline.ended()) return failed(undefined, server, deadline);
  const params = {
    name: call.transport.tool ?? call.name,
    arguments: attempt.arguments,
    _meta: metaOf(attempt),
  };
  try {
    // Not `client.callTool`: that throws away the answer of an effect whose output does not fit its own schema.
    // The deadline's signal sends MCP's cancellation; the SDK's own limit is only set out of the way.
    const result = await server.client.request({ method: 'tools/call', params }, CallToolResultSchema, {
      signal: deadline.signal,
      timeout: Math.min(attempt.timeoutMs + 60_000, 2 ** 31 - 1),
    });
    return outcomeOf(result);
  } catch (error) {
    return failed(error, server, deadline);
  }
}

function metaOf(attempt: ToolAttempt): Record<string, string> {
  return {
    idempotencyKey: attempt.idempotencyKey,
    'drover/idempotency-key': attempt.idempotencyKey,
    'drover/tool-call-id': attempt.toolCallId,
    ...(attempt.runId === '' ? {} : { 'drover/run-id': attempt.runId }),
    ...(attempt.traceparent === undefined ? {} : { traceparent: attempt.traceparent }),
  };
}

function outcomeOf(result: CallToolResult): ToolOutcome {
  const output = outputOf(result);
  if (result.isError !== true) return { kind: 'succeeded', output };
  const text = textOf(result);
  const message = text === '' ? 'The tool failed without saying why.' : text;
  return { kind: 'error', code: 'tool-error', message, output };
}

/** Structured content, else the text (as JSON where it is), else the content blocks as they are. */
function outputOf(result: CallToolResult): unknown {
  if (result.structuredContent !== undefined) return result.structuredContent;
  if (result.content.some((block) => block.type !== 'text')) return { content: result.content };
  return parseOrText(textOf(result));
}

function textOf(result: CallToolResult): string {
  return result.content.map((block) => (block.type === 'text' ? block.text : '')).join('\n');
}

function failed(error: unknown, server: RunningServer, deadline: Deadline): ToolOutcome {
  const ended = deadline.ended();
  if (ended === 'aborted') return { kind: 'aborted', code: 'aborted', message: 'The call was aborted.' };
  if (ended === 'timeout') return { kind: 'lost', code: 'timeout', message: 'The tool did not answer in time.' };
  if (server.sentTooMuch()) {
    return { kind: 'error', code: 'output-too-large', message: 'The tool answered more than may be kept.' };
  }
  if (error instanceof McpError) return mcpFailure(error, server);
  if (error instanceof Error && error.message === 'Not connected') {
    return { kind: 'unreached', code: 'server-gone', message: "The tool's server had ended before the call." };
  }
  if (server.closed()) return lostServer(server);
  return { kind: 'error', code: 'bad-answer', message: 'The tool answered with something that is no tool result.' };
}

const REQUEST_TIMEOUT: number = ErrorCode.RequestTimeout;
const CONNECTION_CLOSED: number = ErrorCode.ConnectionClosed;

function mcpFailure(error: McpError, server: RunningServer): ToolOutcome {
  if (error.code === REQUEST_TIMEOUT) return { kind: 'lost', code: 'timeout', message: error.message };
  // Servers use the same code for errors of their own; ours comes from a connection that is gone.
  if (error.code === CONNECTION_CLOSED && server.closed()) return lostServer(server);
  return { kind: 'error', code: `mcp${error.code}`, message: error.message };
}

function lostServer(server: RunningServer): ToolOutcome {
  const said = server.stderr();
  const message = `The tool's server ended during the call${said === '' ? '' : `; it said: ${said}`}`;
  return { kind: 'lost', code: 'server-died', message };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
