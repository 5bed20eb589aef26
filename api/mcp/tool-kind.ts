/** What a tool of Drover's MCP server consists of. */
import type { z } from 'zod';
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import type { Caller } from '../../core/caller.ts';
import type { Scope } from '../../core/scopes.ts';
import type { Context } from '../../modules/governance/context.ts';

/** One request to the server, and whoever makes it. */
export interface McpRequest {
  context: Context;
  caller: Caller;
  traceparent: string | undefined;
  /** The client's session; undefined for one that keeps none. */
  session: string | undefined;
  /** Fires when the client has left or the process stops: nothing is waited for any more, and the work goes on. */
  gone: AbortSignal;
  /** Whether the request is of one message alone. */
  isAlone: boolean;
}

/** One call of a tool. */
export interface McpCall extends McpRequest {
  /** JSON-RPC's id, unique within the session. */
  id: string | number;
  /** Tells the client how far the call is; undefined where it has not asked for that. */
  onProgress: ((progress: number, message: string) => void) | undefined;
  /** Ends the connection without an answer. */
  hangUp: () => Promise<void>;
}

export interface McpTool<T extends z.ZodType = z.ZodType> {
  name: string;
  description: string;
  input: T;
  /** What the key must be for, besides what opens the server at all. */
  scope?: Scope;
  call: (call: McpCall, input: z.output<T>) => Promise<CallToolResult>;
  /** Begins the same and waits for nothing; answers the run. */
  start?: (call: McpCall, input: z.output<T>) => Promise<string>;
}

/** A tool, its input's type forgotten. */
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
