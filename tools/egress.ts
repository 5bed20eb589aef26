/** The egress guard: the one way out of the process for tools and webhooks (docs/tools.md, Egress). */
import { isUtf8 } from 'node:buffer';
import { lookup as dnsLookup } from 'node:dns/promises';
import { Agent, fetch } from 'undici';
import type { Response } from 'undici';
import { createAddressRules } from './address-rules.ts';
import { startDeadline } from '../lib/deadline.ts';
import type { Deadline } from '../lib/deadline.ts';
import { packingOf, UnpackError, unpackBody, type Packing } from '../lib/unpack-body.ts';
import { EgressError } from './egress-error.ts';
import { packedDispatcher } from './packed-dispatcher.ts';
import { pinnedConnector } from './pinned-connector.ts';
import type { Route } from './pinned-connector.ts';
import { nextHop, withoutSecrets } from './redirect.ts';
import type { Confidential, HopRequest } from './redirect.ts';
import { streamedResponse } from './streamed-response.ts';

export interface EgressOptions {
  /** Non-public hosts, host:port, addresses or CIDRs that may be reached (DROVER_EGRESS_ALLOW). */
  allow: readonly string[];
  /** Whether this machine may be reached (embedded mode). */
  allowLoopback: boolean;
  /** Resolves a name to all its addresses; by default the system's resolver. */
  lookup?: (hostname: string) => Promise<{ address: string }[]>;
}

export interface EgressInit {
  method?: string | undefined;
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
  confidential?: Confidential | undefined;
  /** A longer answer is an error. */
  maxBytes: number;
  /** Default: 5. */
  maxRedirects?: number | undefined;
  /** For everything together: lookups, connections, redirects, the whole body. */
  timeoutMs: number;
  /** Called once a connection stands: if it returns false, the request is not sent. */
  maySend?: (() => boolean) | undefined;
  signal: AbortSignal;
}

export interface EgressResponse {
  status: number;
  headers: { get(name: string): string | null };
  /** The answer's URL, after redirects. */
  url: string;
  body: Buffer;
  /** An encoding that Drover cannot undo: the body is as it came, and no text. */
  unknownEncoding?: string;
}

interface EgressStreamInit {
  method: string;
  headers: Record<string, string>;
  body?: string | undefined;
  /** The most bytes of an answer, or of one event in a stream of events; a longer one breaks off. */
  maxBytes: number;
  /** Likewise, the most commas, lists and objects in it, since it will be parsed. */
  maxValues: number;
  /** Until the answer's headers arrive. */
  timeoutMs: number;
  /** For the whole exchange, body included. */
  signal: AbortSignal;
  /** Called once when the body has ended in any way, with the fault if there was one. */
  onEnd?: ((fault?: EgressError) => void) | undefined;
}

export interface Egress {
  /** Makes one request; resolves with any status and the whole body. Throws `EgressError` only. */
  fetch(url: string, init: EgressInit): Promise<EgressResponse>;
  /** Makes one request; resolves once the headers are there, also for redirects. It and its body throw `EgressError` only. */
  open(url: string, init: EgressStreamInit): Promise<globalThis.Response>;
}

const MAX_REDIRECTS = 5;
/** Headers that belong to the connection, or would make the server see another request than the one checked. */
export const HEADERS_NOT_TO_SET =
  /^(host|connection|content-length|transfer-encoding|upgrade|expect|te|trailer|keep-alive|proxy-.*)$/i;

/** Makes an egress guard. Throws if an entry of `allow` cannot be read. */
export function createEgress(options: EgressOptions): Egress {
  const rules = createAddressRules(options.allow, options.allowLoopback);
  const lookup = options.lookup ?? ((hostname: string) => dnsLookup(hostname, { all: true, verbatim: true }));
  return {
    async fetch(url, init) {
      const deadline = startDeadline(init.timeoutMs, init.signal);
      try {
        return await follow({ rules, lookup, deadline, init, maySend: init.maySend }, url);
      } finally {
        deadline.clear();
      }
    },
    open: (url, init) => openStream({ rules, lookup }, url, init),
  };
}

async function openStream(
  route: Pick<Route, 'rules' | 'lookup'>,
  url: string,
  init: EgressStreamInit,
): Promise<globalThis.Response> {
  const { signal, timeoutMs, method, body } = init;
  const whole = new AbortController();
  const end = () => whole.abort(signal.reason);
  // Added first, so that an abort by the caller is recognized as one, whatever else it stops.
  const deadline = startDeadline(timeoutMs, signal);
  deadline.signal.addEventListener('abort', end, { once: true });
  const state = { connected: false };
  const agent = new Agent({
    pipelining: 0,
    connect: pinnedConnector({ ...route, deadline }, state),
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  let finished = false;
  const finish = (fault?: EgressError) => {
    if (finished) return;
    finished = true;
    signal.removeEventListener('abort', end);
    whole.abort();
    void agent.destroy().catch(() => undefined);
    init.onEnd?.(fault);
  };
  const heard: { encoding?: string } = {};
  try {
    const request: HopRequest = { url: parseUrl(url, false), method, headers: checkHeaders(init.headers), body };
    const { href } = request.url;
    const response = await fetch(href, {
      method,
      headers: request.headers,
      body: body ?? null,
      redirect: 'manual',
      dispatcher: packedDispatcher(agent, heard),
      signal: whole.signal,
    }).catch((error: unknown) => {
      throw explain(error, { exchange: { deadline, init }, request, sent: state.connected });
    });
    signal.addEventListener('abort', end, { once: true });
    const packing = packingOf(response, heard.encoding);
    return streamedResponse(response, { ...init, signal: whole.signal, finish, packing });
  } catch (error) {
    finish();
    throw error;
  } finally {
    deadline.clear();
  }
}

interface Exchange extends Route {
  init: EgressInit;
}

async function follow(exchange: Exchange, url: string): Promise<EgressResponse> {
  const { init } = exchange;
  const maxRedirects = init.maxRedirects ?? MAX_REDIRECTS;
  let request: HopRequest = {
    url: parseUrl(url, false),
    method: (init.method ?? 'GET').toUpperCase(),
    headers: checkHeaders(init.headers ?? {}),
    body: init.body,
  };
  for (let hop = 0; ; hop += 1) {
    const { response, next } = await oneHop(hop > 0 ? { ...exchange, maySend: undefined } : exchange, request, hop > 0);
    if (!next) return response;
    if (hop >= maxRedirects) {
      throw new EgressError('too-many-redirects', `${hostOf(request.url)} redirected more than ${maxRedirects} times`, {
        sent: true,
      });
    }
    request = await withoutSecrets(init.confidential, request, next);
  }
}

/** `answered`: an earlier hop has received the request, so it may have had its effect in any case. */
async function oneHop(exchange: Exchange, request: HopRequest, answered: boolean) {
  const state = { connected: false };
  const connect = pinnedConnector(exchange, state);
  // No keep-alive: if the server closed a kept connection at the wrong moment, the outcome of a sent request would be
  // unknown for no reason. The deadline replaces undici's own timeouts.
  const agent = new Agent({ pipelining: 0, connect, headersTimeout: 0, bodyTimeout: 0 });
  const heard: { encoding?: string } = {};
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers: request.headers,
      body: request.body ?? null,
      redirect: 'manual',
      dispatcher: packedDispatcher(agent, heard),
      signal: exchange.deadline.signal,
    });
    const target = redirectTarget(response, request.url);
    if (target) return { response: head(response, request), next: nextHop(request, response.status, target) };
    const { unknown, ...packing } = packingOf(response, heard.encoding);
    const body = await readBody(response, packing, exchange);
    // Its status counts all the same.
    const unread = unknown !== undefined && !isUtf8(body) && { unknownEncoding: unknown };
    return { response: { ...head(response, request), body, ...unread }, next: undefined };
  } catch (error) {
    throw explain(error, { exchange, request, sent: answered || state.connected });
  } finally {
    // Closes the socket if the body was not read to its end.
    void agent.destroy().catch(() => undefined);
  }
}

function head(response: Response, request: HopRequest): EgressResponse {
  return { status: response.status, headers: response.headers, url: request.url.href, body: Buffer.alloc(0) };
}

function parseUrl(text: string, sent: boolean): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) throw new EgressError('bad-request', 'the URL cannot be read', { sent });
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new EgressError('refused', `${url.protocol} URLs are refused: only http: and https: are allowed`, { sent });
  }
  if (url.username !== '' || url.password !== '') {
    throw new EgressError('refused', `a URL with a user name or password is refused (${hostOf(url)})`, { sent });
  }
  return url;
}

function checkHeaders(headers: Record<string, string>): Record<string, string> {
  const lower = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
  for (const [name, value] of Object.entries(lower)) {
    const legal = /^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name) && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
    // The value may be a secret, so it is never part of the message.
    if (!legal)
      throw new EgressError('bad-request', `the header ${JSON.stringify(name)} is not legal`, { sent: false });
    if (HEADERS_NOT_TO_SET.test(name))
      throw new EgressError('bad-request', `the header ${name} cannot be set`, { sent: false });
  }
  return { 'user-agent': 'drover', ...lower };
}

function redirectTarget(response: Response, from: URL): URL | undefined {
  const location = response.headers.get('location');
  if (![301, 302, 303, 307, 308].includes(response.status) || location === null) return undefined;
  return parseUrl(URL.canParse(location, from.href) ? new URL(location, from.href).href : location, true);
}

async function readBody({ body }: Response, packing: Packing, { init, deadline }: Exchange): Promise<Buffer> {
  const { maxBytes } = init;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ? unpackBody(body, packing, deadline.signal) : []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes)
      throw new EgressError('too-large', `the answer is larger than ${maxBytes} bytes`, { sent: true });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

interface Failure {
  exchange: { deadline: Deadline; init: { timeoutMs: number } };
  request: HopRequest;
  sent: boolean;
}

function explain(error: unknown, { exchange, request, sent }: Failure): EgressError {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  const host = hostOf(request.url);
  if (cause instanceof EgressError) return new EgressError(cause.code, cause.message, { sent: cause.sent || sent });
  if (cause instanceof Error && cause.message === 'bad port') {
    return new EgressError('refused', `the port of ${host} is refused: it belongs to another protocol`, { sent });
  }
  const ended = exchange.deadline.ended();
  if (ended === 'aborted') return new EgressError('aborted', `the request to ${host} was aborted`, { sent });
  if (ended === 'timeout') {
    return new EgressError('timeout', `${host} did not answer within ${exchange.init.timeoutMs} ms`, { sent });
  }
  if (cause instanceof UnpackError) return new EgressError('lost', `${cause.message} (${host})`, { sent, cause });
  const why = reasonOf(cause);
  if (sent) return new EgressError('lost', `the connection to ${host} broke: ${why}`, { sent, cause });
  return new EgressError('unreached', `${host} could not be reached: ${why}`, { sent, cause });
}

function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return 'unknown reason';
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message.slice(0, 200);
}

function hostOf(url: URL): string {
  return url.host;
}
