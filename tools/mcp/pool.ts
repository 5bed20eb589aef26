/** Connections to MCP servers: one per tenant and server in a process, opened by the first call and closed when idle. */
import { messageOf } from '../../core/errors.ts';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { ErrorCode, McpError, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { digestOf } from '../../core/ids.ts';
import { createFailedStarts } from './failed-starts.ts';
import { MESSAGE_LIMITS } from './message-limits.ts';
import { rationMessages } from './ration-messages.ts';
import { wordsOfFailure } from './refusal-words.ts';
import { createRemoteTransport, outsideOfRequests, type RemoteOptions, type SilenceMs } from './remote-transport.ts';
import { createStdioTransport } from './stdio-transport.ts';
import type { McpServer } from './server.ts';

/** A server's address, and the tenant that calls it: two tenants never share a connection. */
export interface McpTarget {
  tenantId: string;
  /** With secrets filled in. */
  server: McpServer;
  /** Called when the server says that its tools have changed. */
  onToolsChanged?: (() => void) | undefined;
}

export interface McpConnection {
  client: Client;
  /** True once the process is gone or the connection was given up. */
  closed(): boolean;
  /** True if it was given up because of a message over the limit that could only answer this call. */
  sentTooMuch(): boolean;
  /** Likewise because of too many messages that nobody had asked for. */
  sentTooMany(): boolean;
  /** Whether requests belong to a session, which the server may forget. */
  hasSession: boolean;
  silenceMs: SilenceMs;
  /** The end of what the process wrote to its standard error. */
  lastWords(): string;
}

export interface McpPool {
  /**
   * Connects if needed; the connection is not closed as idle before `release`. Rejects with the server's or guard's
   * error, or with `ServerBackOffError` if the server has failed repeatedly.
   */
  acquire(target: McpTarget): Promise<McpConnection>;
  release(connection: McpConnection): void;
  /**
   * Drops a connection that the server no longer knows; the next `acquire` opens another. It ends once its other users
   * have released it, since the server may still answer them. May be called more than once.
   */
  discard(connection: McpConnection): void;
  /** Closes every connection and waits for its process to end: end of input, SIGTERM, SIGKILL, a second apart. */
  close(): Promise<void>;
}

interface McpPoolOptions extends RemoteOptions {
  /** How long an unused connection is kept; five minutes by default. */
  idleMs?: number | undefined;
  startTimeoutMs?: number | undefined;
  /** The first pause after a server has failed twice in a row, doubled each time; a second by default. */
  backoffMs?: number | undefined;
}

const IDLE_MS = 300_000;
const START_MS = 30_000;
const BACKOFF_MS = 1000;
/** A server that has run this long did not fail at its start. */
const STEADY_MS = 10_000;

/** What is said of a server that `rationMessages` has cut off. */
export const SENT_TOO_MANY = "The tool's server sent more requests or notifications of its own than it may.";

interface Entry extends McpConnection {
  key: string;
  users: number;
  startedAtMs: number;
  /** Hides the connection from `acquire`; a newer one under its key stays. */
  forget: () => void;
  end: () => Promise<void>;
  isStopped?: true;
  idleTimer?: NodeJS.Timeout | undefined;
}

/** Makes an empty pool. A connection that ends is removed, and reopened by the next `acquire`. */
export function createMcpPool(options: McpPoolOptions): McpPool {
  const entries = new Map<string, Promise<Entry>>();
  const failed = createFailedStarts(options.backoffMs ?? BACKOFF_MS);
  const endings = createEndings();
  let shut = false;

  const startIdling = (entry: Entry): void => {
    clearTimeout(entry.idleTimer);
    if (!entry.closed() && !entry.isStopped)
      entry.idleTimer = setTimeout(endings.stop, options.idleMs ?? IDLE_MS, entry).unref();
  };
  const open = (key: string, target: McpTarget): Promise<Entry> => {
    // A stopped server may end long after its successor under the same key has started.
    const isCurrent = () => entries.get(key) === started;
    const forget = () => {
      if (isCurrent()) entries.delete(key);
    };
    const onClose = (entry: Entry | undefined) => {
      if (!isCurrent()) return;
      forget();
      // A program that starts and dies repeatedly. Remote servers may have other reasons to hang up.
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
      failed.note(key, wordsOfFailure(error));
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
      // A server that has run for a while and is still alive has not failed.
      if (!entry.closed() && performance.now() - entry.startedAtMs > STEADY_MS) failed.forget(entry.key);
      if (entry.users > 0) return;
      if (endings.isDiscarded(entry)) endings.stop(entry);
      else startIdling(entry);
    },
    discard: (connection) => endings.discard(connection as Entry),
    async close() {
      shut = true;
      const started = await Promise.allSettled(entries.values());
      for (const result of started) if (result.status === 'fulfilled') endings.stop(result.value);
      await endings.stopAll();
    },
  };
}

/** How connections end; each function may be called repeatedly. */
function createEndings() {
  const closing = new Set<Promise<void>>();
  /** Those that still have users. */
  const discarded = new Set<Entry>();
  const stop = (entry: Entry): void => {
    clearTimeout(entry.idleTimer);
    if (entry.isStopped) return;
    entry.isStopped = true;
    discarded.delete(entry);
    entry.forget();
    const stopped = entry.end().catch(() => undefined);
    closing.add(stopped);
    void stopped.finally(() => closing.delete(stopped));
  };
  return {
    stop,
    isDiscarded: (entry: Entry): boolean => discarded.has(entry),
    /** Stops it once it has no users. */
    discard(entry: Entry): void {
      entry.forget();
      if (entry.users === 0) stop(entry);
      else if (!entry.isStopped) discarded.add(entry);
    },
    /** Stops those that are discarded, and waits for all that end. */
    async stopAll(): Promise<void> {
      for (const entry of discarded) stop(entry);
      await Promise.all(closing);
    },
  };
}

interface ConnectOptions extends McpPoolOptions {
  key: string;
  forget: () => void;
  onClose: (entry: Entry | undefined) => void;
}

async function connect(target: McpTarget, options: ConnectOptions): Promise<Entry> {
  const { transport, failure, lastWords, silenceMs, endSession, ...told } = transportOf(target.server, options);
  const sentTooMany = rationMessages(transport);
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
    if (sentTooMany()) throw new Error(SENT_TOO_MANY, { cause: error });
    if (failure()) throw failure();
    // Those errors list every form of answer in the client's schemas.
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
  const flags = {
    closed: () => closed,
    sentTooMuch: () => alone && (sentTooMuch || told.sentTooMuch()),
    sentTooMany: () => alone && sentTooMany(),
    hasSession,
  };
  const { key, forget } = options;
  entry = { key, forget, users: 0, startedAtMs: performance.now(), client, end, lastWords, silenceMs, ...flags };
  return entry;
}

interface AnyTransport {
  transport: Transport;
  failure: () => Error | undefined;
  sentTooMuch: () => boolean;
  silenceMs: SilenceMs;
  lastWords: () => string;
  endSession: () => Promise<void>;
}

function transportOf(server: McpServer, options: RemoteOptions): AnyTransport {
  if (server.type !== 'mcp_stdio') return { ...createRemoteTransport(server, options), lastWords: () => '' };
  const { transport, stderr } = createStdioTransport(server, MESSAGE_LIMITS);
  return {
    transport,
    failure: () => undefined,
    sentTooMuch: () => false,
    silenceMs: () => undefined,
    lastWords: stderr,
    endSession: async () => undefined,
  };
}
