/** Calls MCP servers. Loaded by the first call, since the SDK takes 6 MB that most processes never need. */
import type { ToolAttempt, ToolOutcome } from '../../core/tool.ts';
import type { Egress } from '../egress.ts';
import { callMcpTool, type McpCall } from './call-tool.ts';
import { listMcpTools } from './list-tools.ts';
import { createMcpPool } from './pool.ts';

export interface McpClient {
  call(call: McpCall, attempt: ToolAttempt): Promise<ToolOutcome>;
  list(wanted: Parameters<typeof listMcpTools>[0]): ReturnType<typeof listMcpTools>;
  close(): Promise<void>;
}

/** A client with a pool of its own, for all transports. */
export function openMcpClient(egress: Egress): McpClient {
  const pool = createMcpPool({ egress });
  return {
    call: (call, attempt) => callMcpTool(call, attempt, pool),
    list: (wanted) => listMcpTools(wanted, pool),
    close: () => pool.close(),
  };
}
