/** The one way to call a tool: picks its transport and holds it to its limits. Retries are the ledger's affair. */
import { cleanJson, cleanText } from '../core/content.ts';
import { forbidden, impossible, messageOf } from '../core/errors.ts';
import { digestOf } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import { SecretUnreadableError } from '../core/secret-box.ts';
import type { ToolAttempt, ToolDefinition, ToolOutcome, ToolTransport } from '../core/tool.ts';
import { startDeadline } from '../lib/deadline.ts';
import type { Egress } from './egress.ts';
import { importServer } from './mcp/import-server.ts';
import type { ImportedTool } from './mcp/import-server.ts';
import { createMcpPool } from './mcp/pool.ts';
import type { McpPoolOptions } from './mcp/pool.ts';
import type { McpServer } from './mcp/server.ts';
import { createSecretValues, NO_SECRETS, secretNamesIn } from './secret-values.ts';
import type { SecretValues } from './secret-values.ts';
import type { TransportCall, TransportRuntime } from './transport-kind.ts';
import { kindOf } from './transports.ts';

export interface ToolsOptions {
  egress: Egress;
  /** Commands that stdio servers may be started with (DROVER_STDIO_COMMANDS). */
  stdioCommands: readonly string[] | 'any';
  /** The values of those of a tenant's secrets that there are. May throw `SecretUnreadableError`. */
  readSecrets?: (tenantId: string, names: readonly string[]) => Promise<ReadonlyMap<string, string>>;
  now?: () => Date;
  /** Told of a fault of ours that ended a call as `lost`; the outcome does not show it. */
  onFault?: (error: unknown) => void;
  /** Told what a server has, whenever it says that this has changed. */
  onToolsChanged?: (news: ServerNews) => Promise<void>;
  mcp?: Omit<McpPoolOptions, 'egress'>;
}

/** The tools of a server as they are now. `server` is as it is registered: secrets not filled in. */
export interface ServerNews {
  tenantId: string;
  server: McpServer;
  listed: ImportedTool[];
}

export interface Tools {
  /** One attempt. Never throws; settles soon after `attempt.timeoutMs` at the latest. */
  execute(tool: ToolDefinition, attempt: ToolAttempt): Promise<ToolOutcome>;
  /** Every tool of an MCP server, ready to register. Throws a `DroverError`: 403 for the command, 422 for the server. */
  importServer(tenantId: string, server: McpServer, trusted: boolean): Promise<ImportedTool[]>;
  /** Throws a `DroverError` (403) for a stdio command that is not listed. For registration; calls check it again. */
  checkTransport(transport: ToolTransport): void;
  /** Stops the servers that were started. */
  close(): Promise<void>;
}

/** How long a transport may go on past its own time limit before it is no longer waited for. */
const GRACE_MS = 1000;
/** Between two looks at the tools of a server that keeps saying that they have changed. */
const PAUSE_MS = 1000;
const MAX_MESSAGE_CHARS = 4000;

/** Makes the tools of one process. `close()` must be called at its end. */
export function createTools(options: ToolsOptions): Tools {
  const pool = createMcpPool({ ...options.mcp, egress: options.egress });
  const checkCommand = (command: string): void => {
    if (options.stdioCommands === 'any' || options.stdioCommands.includes(command)) return;
    throw forbidden(`The command "${command}" may not be run; an operator can list it in DROVER_STDIO_COMMANDS.`);
  };
  const checkTransport = (transport: ToolTransport | McpServer): void => {
    if (transport.type === 'mcp_stdio') checkCommand(transport.command);
  };
  const list = async (wanted: { tenantId: string; server: McpServer; trusted: boolean }) => {
    const { tenantId, server } = wanted;
    checkTransport(server);
    const secrets = await secretsOf(server, tenantId, options.readSecrets);
    if ('kind' in secrets) throw impossible(`The MCP server was not asked: ${secrets.message}`);
    return importServer({ ...wanted, secrets, onToolsChanged: () => relist({ tenantId, server }) }, pool);
  };
  const relist = oneAtATime(
    async (changed: { tenantId: string; server: McpServer }) => {
      // Risks were settled when a person registered the tools; a server that has changed is not asked about them.
      const listed = await list({ ...changed, trusted: false });
      await options.onToolsChanged?.({ ...changed, listed });
    },
    (error) => options.onFault?.(error),
  );
  const runtime: TransportRuntime = { egress: options.egress, now: options.now, mcp: { pool, relist } };
  return {
    checkTransport,
    async execute(tool, attempt) {
      try {
        checkTransport(tool.transport);
      } catch (error) {
        return { kind: 'error', code: 'not-allowed', message: messageOf(error) };
      }
      const work = async () => {
        const secrets = await secretsOf(tool.transport, attempt.tenantId, options.readSecrets);
        if ('kind' in secrets) return secrets;
        return tidy(await dispatch({ tool, transport: tool.transport, secrets }, attempt, runtime), secrets);
      };
      return within(attempt, work, options.onFault);
    },
    importServer: (tenantId, server, trusted) => list({ tenantId, server, trusted }),
    close: () => pool.close(),
  };
}

/** Work for a server begins at once, or again when it has ended: what is told meanwhile is told once more. */
function oneAtATime<T>(work: (about: T) => Promise<void>, onError: (error: unknown) => void): (about: T) => void {
  const running = new Map<string, { again: boolean }>();
  return function start(about) {
    const key = digestOf(about);
    const now = running.get(key);
    if (now) {
      now.again = true;
      return;
    }
    const state = { again: false };
    running.set(key, state);
    void work(about)
      .catch(onError)
      .finally(() => {
        running.delete(key);
        if (state.again) setTimeout(start, PAUSE_MS, about).unref();
      });
  };
}

function dispatch(call: TransportCall, attempt: ToolAttempt, runtime: TransportRuntime): Promise<ToolOutcome> {
  const kind = kindOf(call.transport);
  if (kind) return kind.call(call, attempt, runtime);
  const message = `The transport "${call.transport.type}" is not known here.`;
  return Promise.resolve({ kind: 'error', code: 'unknown-transport', message });
}

/** Read for each attempt, so that the current value counts and none is kept. What is missing ends it before it begins. */
async function secretsOf(
  transport: ToolTransport | McpServer,
  tenantId: string,
  readSecrets: ToolsOptions['readSecrets'],
): Promise<SecretValues | Exclude<ToolOutcome, { kind: 'succeeded' }>> {
  const names = secretNamesIn(kindOf(transport)?.secretTexts(transport) ?? []);
  if (names.length === 0) return NO_SECRETS;
  try {
    const values = (await readSecrets?.(tenantId, names)) ?? new Map<string, string>();
    const missing = names.find((name) => !values.has(name));
    if (missing === undefined) return createSecretValues(values);
    return { kind: 'error', code: 'secret-missing', message: `The secret "${missing}" is not set.` };
  } catch (error) {
    if (error instanceof SecretUnreadableError) {
      return { kind: 'error', code: 'secret-unreadable', message: error.message };
    }
    return { kind: 'unreached', code: 'secrets', message: 'The secrets that the tool needs could not be read.' };
  }
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
    return await Promise.race([work(), late]);
  } catch (error) {
    onFault?.(error);
    // At a point nobody knows: the effect may have happened.
    return { kind: 'lost', code: 'internal', message: 'An internal fault ended the call.' };
  } finally {
    backstop.clear();
  }
}

/** An outcome that can be stored: no secret, text that Postgres takes, output within its limit. */
function tidy(outcome: ToolOutcome, secrets: SecretValues): ToolOutcome {
  const fitting = fit(outcome, secrets);
  if (!('message' in fitting)) return fitting;
  // Not earlier: a part of a secret at the cut would not be found any more.
  return { ...fitting, message: cut(cleanText(secrets.redact(fitting.message))) };
}

function fit(outcome: ToolOutcome, secrets: SecretValues): ToolOutcome {
  if (outcome.kind !== 'succeeded' && outcome.kind !== 'error') return outcome;
  const output = storable(outcome.output, secrets);
  if (outcome.kind === 'succeeded')
    return 'fault' in output ? { kind: 'error', ...output.fault } : { ...outcome, ...output };
  const { output: _, ...rest } = outcome;
  return 'fault' in output || outcome.output === undefined ? rest : { ...rest, ...output };
}

function storable(
  output: unknown,
  secrets: SecretValues,
): { output: unknown } | { fault: { code: string; message: string } } {
  try {
    const clean: unknown = cleanJson(secrets.redact(output ?? null));
    if (Buffer.byteLength(JSON.stringify(clean)) <= LIMITS.toolOutputBytes) return { output: clean };
    const message = `The tool answered more than ${LIMITS.toolOutputBytes} bytes, which is more than may be kept.`;
    return { fault: { code: 'output-too-large', message } };
  } catch {
    // Nested so deeply that it cannot be walked.
    return { fault: { code: 'bad-output', message: 'The tool answered with data that cannot be kept.' } };
  }
}

function cut(text: string): string {
  return text.length > MAX_MESSAGE_CHARS ? `${text.slice(0, MAX_MESSAGE_CHARS)}…` : text;
}
