/** Connections to MCP servers: one per tenant and server in a process, made by the first call and closed when idle. */
import { messageOf } from '../../core/errors.ts';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode, McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { digestOf } from '../../core/ids.ts';
import type { Egress } from '../egress.ts';
import { createFailedStarts } from './failed-starts.ts';
import { MESSAGE_LIMITS } from './message-limits.ts';
import { createRemoteTransport, outsideOfRequests } from './remote-transport.ts';
import { createStdioTransport } from './stdio-transport.ts';
import type { McpServer } from './server.ts';

/** A server as it is reached, and whose calls it gets: two tenants never share a connection. */
export interface McpTarget {
  tenantId: string;
  /** Secrets filled in. */
  server: McpServer;
  /** Told when the server says that its tools have changed. */
  onToolsChanged?: (() => void) | undefined;
}

export interface McpConnection {
  client: Client;
  /** True as soon as the process is gone or the connection was given up. */
  closed(): boolean;
  /** True if it was given up because it sent more than one message may hold, while it had no other calls that this could answer. */
  sentTooMuch(): boolean;
  /** Whether requests belong to a session, which the server may forget. */
  hasSession: boolean;
  /** The end of what the process wrote to its standard error. */
  lastWords(): string;
}

export interface McpPool {
  /**
   * Connects if there is no connection; it is not closed for idleness until `release`. Rejects with what the server
   * or the guard says, or with `ServerBackOffError` where it has failed again and again.
   */
  acquire(target: McpTarget): Promise<McpConnection>;
  release(connection: McpConnection): void;
  /** Gives a connection up that the server does not know any more; the next `acquire` makes another. Several users of it may say so. */
  discard(connection: McpConnection): void;
  /** Closes every connection and waits for the processes to be gone: end of input, SIGTERM, SIGKILL, two seconds apart. */
  close(): Promise<void>;
}

interface McpPoolOptions {
  egress: Egress;
  /** How long an unused connection is kept; five minutes where absent. */
  idleMs?: number | undefined;
  startTimeoutMs?: number | undefined;
  /** The first pause after a server has failed twice in a row, doubled each time; a second where absent. */
  backoffMs?: number | undefined;
}

const IDLE_MS = 300_000;
const START_MS = 30_000;
const BACKOFF_MS = 1000;
/** Who has lived that long has not failed at its start. */
const STEADY_MS = 10_000;

interface Entry extends McpConnection {
  key: string;
  users: number;
  startedAtMs: number;
  /** No `acquire` gets it any more; another that has come under its key is left alone. */
  forget: () => void;
  end: () => Promise<void>;
  isStopped?: true;
  idleTimer?: NodeJS.Timeout | undefined;
}

/** Makes an empty pool. A connection that ends is forgotten, and made again by the next `acquire`. */
export function createMcpPool(options: McpPoolOptions): McpPool {
  const entries = new Map<string, Promise<Entry>>();
  const failed = createFailedStarts(options.backoffMs ?? BACKOFF_MS);
  const closing = new Set<Promise<void>>();
  let shut = false;

  const stop = (entry: Entry): void => stopOnce(entry, closing);
  const startIdling = (entry: Entry): void => {
    clearTimeout(entry.idleTimer);
    if (!entry.closed() && !entry.isStopped)
      entry.idleTimer = setTimeout(stop, options.idleMs ?? IDLE_MS, entry).unref();
  };
  const open = (key: string, target: McpTarget): Promise<Entry> => {
    // A server that was stopped may end long after the next one under its key has started.
    const isCurrent = () => entries.get(key) === started;
    const forget = () => {
      if (isCurrent()) entries.delete(key);
    };
    const onClose = (entry: Entry | undefined) => {
      if (!isCurrent()) return;
      forget();
      // A program that starts and dies, again and again. Whoever is only connected to has other reasons to hang up.
      const young = entry && performance.now() - entry.startedAtMs < STEADY_MS;
      if (young && target.server.type === 'mcp_stdio') failed.note(key, entry.lastWords() || 'it ended');
    };
    const started: Promise<Entry> = connect(target, { ...options, key, forget, onClose });
    entries.set(key, started);
    const onStarted = (entry: Entry) => {
      if (target.server.type !== 'mcp_stdio') failed.forget(key);
      startIdling(entry);
    };
    started.then(onStarted, (error: unknown) => {
      onClose(undefined);
      failed.note(key, messageOf(error));
    });
    return started;
  };

  return {
    async acquire(target) {
      if (shut) throw new Error('the process is shutting down');
      const key = digestOf([target.tenantId, target.server]);
      if (!entries.has(key)) failed.check(key);
      const entry = await (entries.get(key) ?? open(key, target));
      clearTimeout(entry.idleTimer);
      entry.users += 1;
      return entry;
    },
    release(connection) {
      const entry = connection as Entry;
      entry.users -= 1;
      // Whoever has done something useful and lives has not failed.
      if (!entry.closed() && performance.now() - entry.startedAtMs > STEADY_MS) failed.forget(entry.key);
      if (entry.users === 0) startIdling(entry);
    },
    discard: (connection) => stop(connection as Entry),
    async close() {
      shut = true;
      const started = await Promise.allSettled(entries.values());
      for (const result of started) if (result.status === 'fulfilled') stop(result.value);
      await Promise.all(closing);
    },
  };
}

/** However often it is said; `closing` has what is on its way to its end. */
function stopOnce(entry: Entry, closing: Set<Promise<void>>): void {
  clearTimeout(entry.idleTimer);
  if (entry.isStopped) return;
  entry.isStopped = true;
  entry.forget();
  const stopped = entry.end().catch(() => undefined);
  closing.add(stopped);
  void stopped.finally(() => closing.delete(stopped));
}

interface ConnectOptions extends McpPoolOptions {
  key: string;
  forget: () => void;
  onClose: (entry: Entry | undefined) => void;
}

async function connect(target: McpTarget, options: ConnectOptions): Promise<Entry> {
  const { transport, failure, lastWords, endSession, ...told } = transportOf(target.server, options.egress);
  const client = new Client({ name: 'drover', version: '1.0.0' });
  let entry: Entry | undefined;
  let closed = false;
  let sentTooMuch = false;
  let alone = true;
  client.fallbackRequestHandler = async ({ method }) => {
    throw new McpError(ErrorCode.MethodNotFound, `Drover does not do ${method}: it only calls tools.`);
  };
  client.setNotificationHandler(ToolListChangedNotificationSchema, () =>
    outsideOfRequests(() => target.onToolsChanged?.()),
  );
  Object.assign(client, {
    onerror: (error: Error) => {
      sentTooMuch ||= /exceeded maximum size/.test(error.message);
    },
    onclose: () => {
      closed = true;
      alone = (entry?.users ?? 0) < 2;
      options.onClose(entry);
    },
  });
  try {
    await client.connect(transport, { timeout: options.startTimeoutMs ?? START_MS });
  } catch (error) {
    await client.close().catch(() => undefined);
    const said = lastWords();
    if (failure()) throw failure();
    // The client's schemas tell of every form that an answer could have had.
    const isSchemas = error instanceof Error && 'issues' in error;
    if (said === '' && !isSchemas) throw error;
    const why = isSchemas ? 'it does not answer as MCP servers do' : messageOf(error);
    throw new Error(said === '' ? why : `${why}; it said: ${said}`, { cause: error });
  }
  const end = async () => {
    await endSession();
    await client.close();
  };
  const hasSession = target.server.type === 'mcp_sse' || transport.sessionId !== undefined;
  const flags = { closed: () => closed, sentTooMuch: () => alone && (sentTooMuch || told.sentTooMuch()), hasSession };
  const { key, forget } = options;
  entry = { key, forget, users: 0, startedAtMs: performance.now(), client, end, lastWords, ...flags };
  return entry;
}

interface AnyTransport {
  transport: Transport;
  failure: () => Error | undefined;
  sentTooMuch: () => boolean;
  lastWords: () => string;
  endSession: () => Promise<void>;
}

function transportOf(server: McpServer, egress: Egress): AnyTransport {
  if (server.type !== 'mcp_stdio') {
    return { ...createRemoteTransport(server, egress, MESSAGE_LIMITS), lastWords: () => '' };
  }
  const { transport, stderr } = createStdioTransport(server, MESSAGE_LIMITS);
  const nothing = { failure: () => undefined, sentTooMuch: () => false, endSession: async () => undefined };
  return { ...nothing, transport, lastWords: stderr };
}
