/** Checks the parameters of MCP requests against the protocol. */
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CallToolRequestSchema,
  CancelTaskRequestSchema,
  ErrorCode,
  GetTaskPayloadRequestSchema,
  GetTaskRequestSchema,
  InitializeRequestSchema,
  isJSONRPCRequest,
  ListTasksRequestSchema,
  ListToolsRequestSchema,
  PingRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { z } from 'zod';

const SCHEMAS = [
  InitializeRequestSchema,
  PingRequestSchema,
  ListToolsRequestSchema,
  CallToolRequestSchema,
  GetTaskRequestSchema,
  GetTaskPayloadRequestSchema,
  ListTasksRequestSchema,
  CancelTaskRequestSchema,
];
const BY_METHOD = new Map<string, z.ZodType>(SCHEMAS.map((schema) => [schema.shape.method.value, schema]));

/**
 * Answers malformed requests before the server, which would report an internal error, gets them. Call it after
 * connecting.
 */
export function checkParams(transport: Transport): void {
  const take = transport.onmessage;
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- a transport is no EventTarget
  transport.onmessage = (message, extra) => {
    const checked = isJSONRPCRequest(message) ? BY_METHOD.get(message.method)?.safeParse(message) : undefined;
    if (!isJSONRPCRequest(message) || !checked?.error) {
      take?.(message, extra);
      return;
    }
    const error = { code: ErrorCode.InvalidParams, message: z.prettifyError(checked.error) };
    // A client that has left is not told.
    transport.send({ jsonrpc: '2.0', id: message.id, error }).catch(() => undefined);
  };
}
