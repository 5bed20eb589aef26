/** The one way to call a tool: picks its transport and holds it to its limits. Retries are the ledger's affair. */
import { cleanJson, cleanText } from '../core/content.ts';
import { forbidden } from '../core/errors.ts';
import { LIMITS } from '../core/limits.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import { runBuiltin } from './builtin.ts';
import { startDeadline } from './deadline.ts';
import type { Egress } from './egress.ts';
import { callHttp } from './http.ts';
import { importServer } from './import-server.ts';
import type { ImportedTool } from './import-server.ts';
import { createMcpPool } from './mcp-pool.ts';
import type { McpPool, McpPoolOptions, ServerCommand } from './mcp-pool.ts';
import { callMcpTool } from './mcp-stdio.ts';

export interface ToolsOptions {
  egress: Egress;
  /** Commands that stdio servers may be started with (DROVER_STDIO_COMMANDS). */
  stdioCommands: readonly string[] | 'any';
  /** The value of a tenant's secret. */
  resolveSecret?: (name: string, tenantId: string) => Promise<string | undefined>;
  now?: () => Date;
  /** Told of a fault of ours that ended a call as `lost`; the outcome does not show it. */
  onFault?: (error: unknown) => void;
  stdio?: McpPoolOptions;
}

export interface Tools {
  /** One attempt. Never throws; settles soon after `attempt.timeoutMs` at the latest. */
  execute(tool: ToolDefinition, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Every tool of an MCP server, ready to register. Throws a `DroverError`: 403 for the command, 422 for the server. */
  importServer(server: ServerCommand, trusted: boolean): Promise<ImportedTool[]>;
  /** Throws a `DroverError` (403) for a stdio command that is not listed. For registration; calls check it again. */
  checkTransport(transport: ToolTransport): void;
  /** Stops the servers that were started. */
  close(): Promise<void>;
}

/** How long a transport may go on past its own time limit before it is no longer waited for. */
const GRACE_MS = 1000;

/** Makes the tools of one process. `close()` must be called at its end. */
export function createTools(options: ToolsOptions): Tools {
  const pool = createMcpPool(options.stdio);
  const checkCommand = (command: string): void => {
    if (options.stdioCommands === 'any' || options.stdioCommands.includes(command)) return;
    throw forbidden(`The command "${command}" may not be run; an operator can list it in DROVER_STDIO_COMMANDS.`);
  };
  const checkTransport = (transport: ToolTransport): void => {
    if (transport.type === 'mcp_stdio') checkCommand(transport.command);
  };
  return {
    checkTransport,
    async execute(tool, attempt) {
      try {
        checkTransport(tool.transport);
      } catch (error) {
        return { kind: 'error', code: 'not-allowed', message: messageOf(error) };
      }
      return within(attempt, () => dispatch(tool, attempt, { options, pool }), options.onFault);
    },
    async importServer(server, trusted) {
      checkCommand(server.command);
      return importServer(server, trusted, pool);
    },
    close: () => pool.close(),
  };
}

interface Runtime {
  options: ToolsOptions;
  pool: McpPool;
}

type Runner<T extends ToolTransport> = (
  call: { tool: ToolDefinition; transport: T },
  attempt: ToolAttempt,
  runtime: Runtime,
) => Promise<ToolOutcome>;

/** A new transport is one line here. */
const RUNNERS: { [Type in ToolTransport['type']]: Runner<Extract<ToolTransport, { type: Type }>> } = {
  builtin: ({ tool }, attempt, { options }) => runBuiltin(tool.name, attempt, options),
  http: ({ transport }, attempt, { options }) => {
    const { egress, resolveSecret } = options;
    return callHttp(transport, attempt, {
      egress,
      resolveSecret: resolveSecret && ((name) => resolveSecret(name, attempt.tenantId)),
    });
  },
  mcp_stdio: ({ tool, transport }, attempt, { pool }) => callMcpTool({ transport, name: tool.name }, attempt, pool),
};

function dispatch(tool: ToolDefinition, attempt: ToolAttempt, runtime: Runtime): Promise<ToolOutcome> {
  const run = RUNNERS[tool.transport.type] as Runner<ToolTransport> | undefined;
  if (run) return run({ tool, transport: tool.transport }, attempt, runtime);
  const message = `The transport "${tool.transport.type}" is not known here.`;
  return Promise.resolve({ kind: 'error', code: 'unknown-transport', message });
}

/** The transports keep their own time; this holds for one that does not, so that a worker is never stuck in a tool. */
async function within(
  attempt: ToolAttempt,
  work: () => Promise<ToolOutcome>,
  onFault: ((error: unknown) => void) | undefined,
): Promise<ToolOutcome> {
  if (attempt.signal.aborted) return { kind: 'aborted', code: 'aborted', message: 'The call was aborted.' };
  const backstop = startDeadline(attempt.timeoutMs + GRACE_MS, new AbortController().signal);
  const late = new Promise<ToolOutcome>((resolve) => {
    backstop.signal.addEventListener('abort', () => {
      resolve({ kind: 'lost', code: 'timeout', message: `The tool did not answer within ${attempt.timeoutMs} ms.` });
    });
  });
  try {
    return tidy(await Promise.race([work(), late]));
  } catch (error) {
    onFault?.(error);
    // At a point nobody knows: the effect may have happened.
    return { kind: 'lost', code: 'internal', message: 'An internal fault ended the call.' };
  } finally {
    backstop.clear();
  }
}

/** An outcome that can be stored: text that Postgres takes, output within its limit. */
function tidy(outcome: ToolOutcome): ToolOutcome {
  const fitting = fit(outcome);
  return 'message' in fitting ? { ...fitting, message: cleanText(fitting.message) } : fitting;
}

function fit(outcome: ToolOutcome): ToolOutcome {
  if (outcome.kind !== 'succeeded' && outcome.kind !== 'error') return outcome;
  const output = storable(outcome.output);
  if (outcome.kind === 'succeeded')
    return 'fault' in output ? { kind: 'error', ...output.fault } : { ...outcome, ...output };
  const { output: _, ...rest } = outcome;
  return 'fault' in output || outcome.output === undefined ? rest : { ...rest, ...output };
}

function storable(output: unknown): { output: unknown } | { fault: { code: string; message: string } } {
  try {
    const clean: unknown = cleanJson(output ?? null);
    if (Buffer.byteLength(JSON.stringify(clean)) <= LIMITS.toolOutputBytes) return { output: clean };
    const message = `The tool answered more than ${LIMITS.toolOutputBytes} bytes, which is more than may be kept.`;
    return { fault: { code: 'output-too-large', message } };
  } catch {
    // Nested so deeply that it cannot be walked.
    return { fault: { code: 'bad-output', message: 'The tool answered with data that cannot be kept.' } };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
