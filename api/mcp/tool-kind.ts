/** The parts of a tool of Drover's MCP server. */
import type { z } from 'zod';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Caller } from '../../core/caller.ts';
import type { Scope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';

/** A request to the server, and its caller. */
export interface McpRequest {
  context: Context;
  caller: Caller;
  traceparent: string | undefined;
  /** Number of its characters that had to be replaced. */
  replaced: number | undefined;
  /** The client's session; undefined if it keeps none. */
  session: string | undefined;
  /** Fires when the client has left or the process stops: waiting ends, but the work goes on. */
  gone: AbortSignal;
  /** Whether the request is a single message. */
  isAlone: boolean;
}

/** One call of a tool. */
export interface McpCall extends McpRequest {
  /** JSON-RPC's id, unique within the session. */
  id: string | number;
  /** Reports progress to the client; undefined if it did not ask for it. */
  onProgress: ((progress: number, message: string) => void) | undefined;
  /** Ends the connection without an answer. */
  hangUp: () => Promise<void>;
}

export interface McpTool<T extends z.ZodType = z.ZodType> {
  name: string;
  description: string;
  input: T;
  /** A scope that the key needs besides the server's own. */
  scope?: Scope;
  call: (call: McpCall, input: z.output<T>) => Promise<CallToolResult>;
  /** Starts the same work without waiting; returns the run's id. */
  start?: (call: McpCall, input: z.output<T>) => Promise<string>;
}

/** Erases the type of a tool's input. */
export function defineTool<T extends z.ZodType>(tool: McpTool<T>): McpTool {
  const { start, ...plain } = tool;
  return {
    ...plain,
    call: (call, input) => tool.call(call, input as z.output<T>),
    ...(start && { start: (call, input) => start(call, input as z.output<T>) }),
  };
}

/** A result: text for a model, and the same as data. */
export function answer(text: string, structuredContent: Record<string, unknown>, isError = false): CallToolResult {
  return { content: [{ type: 'text', text }], structuredContent, ...(isError && { isError }) };
}
