/** Running MCP servers over stdio: one child process per distinct command, arguments and environment. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { digestOf } from '../core/ids.ts';
import { LIMITS } from '../core/limits.ts';
import type { SecretValues } from './secret-values.ts';

export interface ServerCommand {
  command: string;
  args?: readonly string[] | undefined;
  env?: Readonly<Record<string, string>> | undefined;
}

/** The command with the secrets of its environment filled in. */
export function withSecrets<T extends ServerCommand>(server: T, { fill }: SecretValues): T {
  if (server.env === undefined) return server;
  return { ...server, env: Object.fromEntries(Object.entries(server.env).map(([key, text]) => [key, fill(text)])) };
}

export interface RunningServer {
  client: Client;
  /** True as soon as the process is gone or the connection was given up. */
  closed(): boolean;
  /** True if it was given up because it sent more than one message may hold. */
  sentTooMuch(): boolean;
  /** The end of what the process wrote to its standard error. */
  stderr(): string;
}

export interface McpPool {
  /** Starts the server where it does not run; it is not stopped for idleness until `release`. Rejects if it cannot start. */
  acquire(command: ServerCommand): Promise<RunningServer>;
  release(server: RunningServer): void;
  /** Stops every server and waits for the processes to be gone: end of input, SIGTERM, SIGKILL, two seconds apart. */
  close(): Promise<void>;
}

export interface McpPoolOptions {
  /** How long an unused server is kept; five minutes where absent. */
  idleMs?: number | undefined;
  startTimeoutMs?: number | undefined;
}

const IDLE_MS = 300_000;
const START_MS = 30_000;
/** Far more than is shown, so that a secret is never cut where it could not be recognised. */
const STDERR_CHARS = LIMITS.secretBytes + 10_000;
/** An answer may hold its output twice, as data and as text for those who read no data. */
const MAX_MESSAGE_BYTES = 2 * LIMITS.toolOutputBytes + 65_536;

interface Entry extends RunningServer {
  key: string;
  users: number;
  idleTimer?: NodeJS.Timeout | undefined;
}

/** Makes an empty pool. A server that dies is forgotten, and started again by the next `acquire`. */
export function createMcpPool(options: McpPoolOptions = {}): McpPool {
  const entries = new Map<string, Promise<Entry>>();
  const closing = new Set<Promise<void>>();
  let shut = false;

  const stop = (entry: Entry): void => {
    clearTimeout(entry.idleTimer);
    entries.delete(entry.key);
    const stopped = entry.client.close().catch(() => undefined);
    closing.add(stopped);
    void stopped.finally(() => closing.delete(stopped));
  };
  const startIdling = (entry: Entry): void => {
    clearTimeout(entry.idleTimer);
    if (!entry.closed()) entry.idleTimer = setTimeout(stop, options.idleMs ?? IDLE_MS, entry).unref();
  };
  const open = (key: string, command: ServerCommand): Promise<Entry> => {
    // A server that was stopped may end long after the next one under its key has started.
    const forget = () => {
      if (entries.get(key) === started) entries.delete(key);
    };
    const started: Promise<Entry> = start(command, {
      key,
      onClose: forget,
      timeoutMs: options.startTimeoutMs ?? START_MS,
    });
    entries.set(key, started);
    started.then(startIdling, forget);
    return started;
  };

  return {
    async acquire(command) {
      if (shut) throw new Error('the process is shutting down');
      const key = digestOf([command.command, command.args ?? [], command.env ?? {}]);
      const entry = await (entries.get(key) ?? open(key, command));
      clearTimeout(entry.idleTimer);
      entry.users += 1;
      return entry;
    },
    release(server) {
      const entry = server as Entry;
      entry.users -= 1;
      if (entry.users === 0) startIdling(entry);
    },
    async close() {
      shut = true;
      const started = await Promise.allSettled(entries.values());
      for (const result of started) if (result.status === 'fulfilled') stop(result.value);
      await Promise.all(closing);
    },
  };
}

interface StartOptions {
  key: string;
  onClose: () => void;
  timeoutMs: number;
}

async function start(command: ServerCommand, { key, onClose, timeoutMs }: StartOptions): Promise<Entry> {
  const transport = new StdioClientTransport({
    command: command.command,
    args: [...(command.args ?? [])],
    // The SDK adds PATH, HOME and the user's name and shell of our environment, and nothing else of it.
    env: { LANG: 'C.UTF-8', ...command.env },
    stderr: 'pipe',
    maxBufferSize: MAX_MESSAGE_BYTES,
  });
  const client = new Client({ name: 'drover', version: '1.0.0' });
  let closed = false;
  let sentTooMuch = false;
  let stderr = '';
  transport.stderr?.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString('utf8')).slice(-STDERR_CHARS);
  });
  Object.assign(client, {
    onerror: (error: Error) => {
      sentTooMuch ||= /exceeded maximum size/.test(error.message);
    },
    onclose: () => {
      closed = true;
      onClose();
    },
  });
  try {
    await client.connect(transport, { timeout: timeoutMs });
  } catch (error) {
    await client.close().catch(() => undefined);
    const said = stderr.trim();
    throw new Error(`${messageOf(error)}${said === '' ? '' : `; it said: ${said}`}`, { cause: error });
  }
  return { key, users: 0, client, closed: () => closed, sentTooMuch: () => sentTooMuch, stderr: () => stderr.trim() };
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
