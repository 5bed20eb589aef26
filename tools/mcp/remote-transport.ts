/** MCP over HTTP (spec 2025-11-25, Streamable HTTP; 2024-11-05, HTTP with SSE), through the egress guard. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SSEClientTransport, SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport, StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { linkSignals } from '../../lib/link-signals.ts';
import { EgressError } from '../egress-error.ts';
import type { Egress } from '../egress.ts';
import { retryAfter } from '../retry-after.ts';
import type { MessageLimits } from './message-limits.ts';
import type { McpServer } from './server.ts';

type RemoteServer = Extract<McpServer, { type: 'mcp_http' | 'mcp_sse' }>;

interface RemoteTransport {
  transport: Transport;
  /** The last failure of a connection: the SDK reports some as text only. */
  failure: () => EgressError | undefined;
  /** True if the session's stream broke off because a message exceeded the limit. */
  sentTooMuch: () => boolean;
  /** Ends the session at the server, if it has one; never throws. */
  endSession: () => Promise<void>;
}

/** Until an answer's headers arrive; what follows them may take longer. */
const HEADERS_MS = 60_000;
const END_SESSION_MS = 2000;
/** How long a request goes on without an open stream to bring its answer: the SDK may resume one. */
const SILENCE_MS = 5000;

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
  signal: AbortSignal;
  opened: () => void;
  ended: (fault?: EgressError) => void;
}

/** Runs work that outlives the request in whose answer it was triggered. */
export function outsideOfRequests(work: () => void): void {
  current.exit(work);
}

/** Makes the transport of a server; sends nothing yet. The SDK follows redirects only within its origin. */
export function createRemoteTransport(server: RemoteServer, egress: Egress, most: MessageLimits): RemoteTransport {
  let failure: EgressError | undefined;
  let tooMuch = false;
  const { origin } = new URL(server.endpoint);
  const guarded: FetchLike = async (url, init = {}) => {
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
      tooMuch ||= server.type === 'mcp_sse' && fault?.code === 'too-large';
      streams?.ended(fault);
    };
    const { method = 'GET' } = init;
    try {
      const response = await egress.open(String(url), {
        method,
        headers: Object.fromEntries(new Headers(init.headers)),
        body: typeof init.body === 'string' ? init.body : undefined,
        ...most,
        timeoutMs: HEADERS_MS,
        signal,
        onEnd,
      });
      return method === 'POST' ? await takenBy(response) : response;
    } catch (error) {
      if (error instanceof EgressError) failure = error;
      throw error;
    }
  };
  const url = new URL(server.endpoint);
  const options = { fetch: guarded, requestInit: { headers: { ...server.headers } } };
  if (server.type === 'mcp_sse') {
    const transport = new SSEClientTransport(url, options);
    return {
      transport: endingWithItsStream(transport),
      failure: () => failure,
      sentTooMuch: () => tooMuch,
      endSession: async () => undefined,
    };
  }
  const transport = new StreamableHTTPClientTransport(url, options);
  const endSession = async () => {
    const timer = setTimeout(() => void transport.close(), END_SESSION_MS);
    await transport.terminateSession().catch(() => undefined);
    clearTimeout(timer);
  };
  return { transport, failure: () => failure, sentTooMuch: () => false, endSession };
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
 * with `EgressError`: `lost` if the streams ended without an answer, `too-large` if one exceeded the limit, as a retry
 * would.
 */
export async function overStreams<T>(send: (signal: AbortSignal) => Promise<T>, caller: AbortSignal): Promise<T> {
  const silence = new AbortController();
  const done = new AbortController();
  const { signal, release } = linkSignals(caller, silence.signal);
  let open = 0;
  let tooMuch: EgressError | undefined;
  let timer: NodeJS.Timeout | undefined;
  const streams: RequestStreams = {
    signal: done.signal,
    opened: () => {
      open += 1;
      clearTimeout(timer);
    },
    ended: (fault) => {
      open -= 1;
      if (fault?.code === 'too-large') {
        tooMuch = fault;
        silence.abort();
      } else if (open === 0) timer = setTimeout(() => silence.abort(), SILENCE_MS);
    },
  };
  try {
    return await current.run(streams, () => send(signal));
  } catch (error) {
    if (!silence.signal.aborted || caller.aborted) throw error;
    if (tooMuch) throw tooMuch;
    throw new EgressError('lost', 'the server ended its answer before it had given one', { sent: true, cause: error });
  } finally {
    release();
    done.abort();
    clearTimeout(timer);
  }
}
