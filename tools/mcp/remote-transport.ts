/** MCP over HTTP (spec 2025-11-25, Streamable HTTP; 2024-11-05, HTTP with SSE), through the egress guard. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SSEClientTransport, SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport, StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { Deadline } from '../../lib/deadline.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import { LONGEST_TIMER_MS } from '../../lib/start-timer.ts';
import { EgressError } from '../egress-error.ts';
import type { Egress } from '../egress.ts';
import { retryAfter } from '../retry-after.ts';
import { noticeRetry } from './notice-retry.ts';
import { MESSAGE_LIMITS } from './message-limits.ts';
import { createStreamPacer } from './pace-streams.ts';
import type { McpServer } from './server.ts';

type RemoteServer = Extract<McpServer, { type: 'mcp_http' | 'mcp_sse' }>;

interface RemoteTransport {
  transport: Transport;
  /** The last failure of a connection: the SDK reports some as text only. */
  failure: () => EgressError | undefined;
  /** True if the session's stream broke off because a message exceeded the limit. */
  sentTooMuch: () => boolean;
  silenceMs: SilenceMs;
  /** Ends the session at the server, if it has one; never throws. */
  endSession: () => Promise<void>;
}

export interface RemoteOptions {
  egress: Egress;
  /** Until an answer's headers arrive; a minute by default. Requests `overStreams` have their own deadline. */
  headersMs?: number | undefined;
  /** How long a request goes on without an open stream, beyond the `retry` that the server asks for; 5 s by default. */
  silenceMs?: number | undefined;
}

/**
 * How long a request goes on without an open stream of its own to bring its answer: the SDK may resume one. Undefined
 * where the answer comes in a stream of the connection, which closes with it.
 */
export type SilenceMs = () => number | undefined;

const HEADERS_MS = 60_000;
const END_SESSION_MS = 2000;
const SILENCE_MS = 5000;
/** A request's own deadline comes first, since it tells the server. */
const AFTER_DEADLINE_MS = 1000;

/** The request that a connection belongs to: the SDK opens and resumes several without saying for which request. */
const current = new AsyncLocalStorage<RequestStreams>();

/** A server's refusal that names the time after which it takes the request: it has done nothing. */
export class BusyError extends StreamableHTTPError {
  readonly retryAfterMs: number;

  constructor(status: number, said: string, retryAfterMs: number) {
    super(status, `Error POSTing to endpoint: ${said}`);
    this.retryAfterMs = retryAfterMs;
  }
}

const BUSY_STATUSES = [429, 503];

interface RequestStreams {
  deadline: Deadline;
  signal: AbortSignal;
  opened: () => void;
  ended: (fault?: EgressError) => void;
}

/** Runs work that outlives the request in whose answer it was triggered. */
export function outsideOfRequests(work: () => void): void {
  current.exit(work);
}

/** What a connection has learnt from its server's answers. */
interface Heard {
  failure?: EgressError;
  tooMuch?: true;
  retryMs: number;
}

/** Makes the transport of a server; sends nothing yet. The SDK follows redirects only within its origin. */
export function createRemoteTransport(server: RemoteServer, options: RemoteOptions): RemoteTransport {
  const heard: Heard = { retryMs: 0 };
  const { silenceMs = SILENCE_MS } = options;
  const url = new URL(server.endpoint);
  const sdkOptions = {
    fetch: guardedFetch(server, options, heard),
    requestInit: { headers: { ...server.headers } },
  };
  if (server.type === 'mcp_sse') {
    const transport = new SSEClientTransport(url, sdkOptions);
    return {
      transport: endingWithItsStream(transport),
      failure: () => heard.failure,
      sentTooMuch: () => heard.tooMuch ?? false,
      silenceMs: () => undefined,
      endSession: async () => undefined,
    };
  }
  const transport = new StreamableHTTPClientTransport(url, sdkOptions);
  const endSession = async () => {
    const timer = setTimeout(() => void transport.close(), END_SESSION_MS);
    await transport.terminateSession().catch(() => undefined);
    clearTimeout(timer);
  };
  return {
    transport,
    failure: () => heard.failure,
    sentTooMuch: () => false,
    silenceMs: () => heard.retryMs + silenceMs,
    endSession,
  };
}

function guardedFetch(
  server: RemoteServer,
  { egress, headersMs = HEADERS_MS }: RemoteOptions,
  heard: Heard,
): FetchLike {
  const { origin } = new URL(server.endpoint);
  const pace = createStreamPacer();
  return async (url, init = {}) => {
    if (new URL(url).origin !== origin) {
      // Its headers may hold a secret, and are for its own origin.
      throw new EgressError('refused', 'the server leads to another origin', { sent: true });
    }
    const streams = current.getStore();
    const { signal, release } = linkSignals(
      ...[init.signal, streams?.signal].filter((source) => source !== undefined && source !== null),
    );
    streams?.opened();
    const onEnd = (fault?: EgressError) => {
      release();
      if (server.type === 'mcp_sse' && fault?.code === 'too-large') heard.tooMuch = true;
      streams?.ended(fault);
    };
    const { method = 'GET' } = init;
    const giveUp = (error: unknown) => {
      onEnd();
      throw error;
    };
    // Each request resumes a stream of its own; others are those of the connection.
    if (method === 'GET') await pace(streams ?? heard, signal).catch(giveUp);
    try {
      const response = await egress.open(String(url), {
        method,
        headers: Object.fromEntries(new Headers(init.headers)),
        body: typeof init.body === 'string' ? init.body : undefined,
        ...MESSAGE_LIMITS,
        // An answer in JSON has its headers only once the work is done.
        timeoutMs: streams && method === 'POST' ? streams.deadline.remainingMs() + AFTER_DEADLINE_MS : headersMs,
        signal,
        onEnd,
      });
      const taken = method === 'POST' ? await takenBy(response) : response;
      return noticeRetry(taken, (ms) => (heard.retryMs = ms));
    } catch (error) {
      if (error instanceof EgressError) heard.failure = error;
      throw error;
    }
  };
}

/** The answer, unless it says that the request was not taken: throws `BusyError`. */
async function takenBy(response: Response): Promise<Response> {
  const afterMs = BUSY_STATUSES.includes(response.status) ? retryAfter(response.headers.get('retry-after')) : undefined;
  if (afterMs === undefined) return response;
  throw new BusyError(response.status, await response.text().catch(() => ''), afterMs);
}

/** The stream is the session: the SDK would open another one, which is not initialized at the server. */
function endingWithItsStream(transport: SSEClientTransport): Transport {
  const onerror = (error: Error) => {
    if (error instanceof SseError) void transport.close();
  };
  return Object.assign(transport, { onerror });
}

/**
 * Sends a request and waits for its answer while any stream could bring it. `send` gets the signal for the SDK. Rejects
 * with `EgressError`: `lost` if the streams ended without an answer, `too-large` or `unknown-encoding` if one was so, as
 * that of a retry would be.
 */
export async function overStreams<T>(
  send: (signal: AbortSignal) => Promise<T>,
  deadline: Deadline,
  silenceMs: SilenceMs,
): Promise<T> {
  const silence = new AbortController();
  const done = new AbortController();
  const { signal, release } = linkSignals(deadline.signal, silence.signal);
  let open = 0;
  let unusable: EgressError | undefined;
  let timer: NodeJS.Timeout | undefined;
  // The end of a stream may be known before its last `retry`.
  const waitInSilence = (waitedMs: number) => {
    const mostMs = silenceMs();
    if (mostMs === undefined || done.signal.aborted) return;
    const leftMs = mostMs - waitedMs;
    if (leftMs > 0) timer = setTimeout(waitInSilence, Math.min(leftMs, LONGEST_TIMER_MS), mostMs);
    else silence.abort();
  };
  const streams: RequestStreams = {
    deadline,
    signal: done.signal,
    opened: () => {
      open += 1;
      clearTimeout(timer);
    },
    ended: (fault) => {
      open -= 1;
      if (fault?.code === 'too-large' || fault?.code === 'unknown-encoding') {
        unusable = fault;
        silence.abort();
      } else if (open === 0) waitInSilence(0);
    },
  };
  try {
    return await current.run(streams, () => send(signal));
  } catch (error) {
    if (!silence.signal.aborted || deadline.signal.aborted) throw error;
    if (unusable) throw unusable;
    throw new EgressError('lost', 'the server ended its answer before it had given one', { sent: true, cause: error });
  } finally {
    release();
    done.abort();
    clearTimeout(timer);
  }
}
