/** What a tool transport consists of: all that the rest of Drover asks of one. Listed in `tools/transports.ts`. */
import type { z } from 'zod';
import type { FieldError } from '../core/errors.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import type { Egress } from './egress.ts';
import type { McpPool } from './mcp/pool.ts';
import type { McpServer } from './mcp/server.ts';
import type { SecretValues } from './secret-values.ts';

export interface TransportKind<T extends ToolTransport = ToolTransport> {
  type: T['type'];
  /** What a registration may say. */
  schema: z.ZodType<T> & z.core.$ZodTypeDiscriminable;
  /** What keeps it from ever making a call, for a registration; paths are below `transport`. */
  check?(transport: T): FieldError[];
  /** Every text in which `{{secret:name}}` stands for a secret. */
  secretTexts(transport: T): string[];
  /** As answers show it: what may be a credential is hidden (`tools/redact.ts`). */
  present(transport: T): Record<string, unknown> & { type: string };
  /** One attempt. What the tool or the network does is an outcome; secrets are taken out of it afterwards. */
  call(call: TransportCall<T>, attempt: ToolAttempt, runtime: TransportRuntime): Promise<ToolOutcome>;
}

export interface TransportCall<T extends ToolTransport = ToolTransport> {
  tool: ToolDefinition;
  transport: T;
  /** Of `secretTexts`; their values belong into what is sent and nowhere else. */
  secrets: SecretValues;
}

/** What a process has for its transports. */
export interface TransportRuntime {
  egress: Egress;
  /** The current time; the system's clock where absent. */
  now?: (() => Date) | undefined;
  mcp: {
    pool: McpPool;
    relist: (changed: { tenantId: string; server: McpServer }) => void;
  };
}
