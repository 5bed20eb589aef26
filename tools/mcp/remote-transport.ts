/** MCP over HTTP (spec 2025-11-25, Streamable HTTP; 2024-11-05, HTTP with SSE), through the egress guard. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SSEClientTransport, SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { linkSignals } from '../../lib/link-signals.ts';
import { EgressError } from '../egress-error.ts';
import type { Egress } from '../egress.ts';
import type { MessageLimits } from './message-limits.ts';
import type { McpServer } from './server.ts';

type RemoteServer = Extract<McpServer, { type: 'mcp_http' | 'mcp_sse' }>;

interface RemoteTransport {
  transport: Transport;
  /** The last failure of a connection: the SDK tells of some in words only. */
  failure: () => EgressError | undefined;
  /** True if the stream that is the session broke off since more came on it than one message may hold. */
  sentTooMuch: () => boolean;
  /** Ends the session at the server, if it has one; never throws. */
  endSession: () => Promise<void>;
}

/** Until the headers of an answer are there; a server may take its time with what follows them. */
const HEADERS_MS = 60_000;
const END_SESSION_MS = 2000;
/** How long a request goes on without any open stream that could bring its answer: the SDK may yet resume one. */
const SILENCE_MS = 5000;

/** The request that a connection belongs to: the SDK opens several, and resumes some, without saying for what. */
const current = new AsyncLocalStorage<RequestStreams>();

interface RequestStreams {
  signal: AbortSignal;
  opened: () => void;
  ended: (fault?: EgressError) => void;
}

/** Does what goes on when the request is over in whose answer it was told. */
export function outsideOfRequests(work: () => void): void {
  current.exit(work);
}

/** Makes the transport of a server; nothing is sent yet. The SDK follows redirects within its origin only. */
export function createRemoteTransport(server: RemoteServer, egress: Egress, most: MessageLimits): RemoteTransport {
  let failure: EgressError | undefined;
  let tooMuch = false;
  const { origin } = new URL(server.endpoint);
  const guarded: FetchLike = async (url, init = {}) => {
    if (new URL(url).origin !== origin) {
      // Its headers, which may hold a secret, are for its own origin.
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
    try {
      return await egress.open(String(url), {
        method: init.method ?? 'GET',
        headers: Object.fromEntries(new Headers(init.headers)),
        body: typeof init.body === 'string' ? init.body : undefined,
        ...most,
        timeoutMs: HEADERS_MS,
        signal,
        onEnd,
      });
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

/** The stream is the session: the SDK would open another, which the server has never been introduced to. */
function endingWithItsStream(transport: SSEClientTransport): Transport {
  const onerror = (error: Error) => {
    if (error instanceof SseError) void transport.close();
  };
  return Object.assign(transport, { onerror });
}

/**
 * Sends a request and waits for its answer, for as long as there is a stream that could bring it. `send` gets the signal
 * to hand to the SDK. Rejects with `EgressError`: `lost` where the streams have ended without an answer, `too-large` where
 * one has brought more than may be read, which it would again.
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
