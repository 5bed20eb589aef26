/** The egress guard: the one way out of the process for tools and webhooks (api.md, Egress). */
import { lookup as dnsLookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Socket } from 'node:net';
import { Agent, buildConnector, fetch } from 'undici';
import type { Response } from 'undici';
import { createAddressRules } from './address-rules.ts';
import type { AddressRules } from './address-rules.ts';
import { raceSignal, startDeadline } from './deadline.ts';
import type { Deadline } from './deadline.ts';
import { EgressError } from './egress-error.ts';
import { nextHop } from './redirect.ts';
import type { HopRequest } from './redirect.ts';

export interface EgressOptions {
  /** Hosts, host:port, addresses or CIDRs that may be reached although they are not public (DROVER_EGRESS_ALLOW). */
  allow: readonly string[];
  /** Embedded mode: this machine itself may be reached. */
  allowLoopback: boolean;
  /** Resolves a name to all its addresses. The system's resolver where absent. */
  lookup?: (hostname: string) => Promise<{ address: string }[]>;
}

export interface EgressInit {
  method?: string | undefined;
  headers?: Record<string, string> | undefined;
  body?: string | undefined;
  /** A longer answer is an error. */
  maxBytes: number;
  /** 5 where absent. */
  maxRedirects?: number | undefined;
  /** For everything together: names, connections, redirects, the whole body. */
  timeoutMs: number;
  signal: AbortSignal;
}

export interface EgressResponse {
  status: number;
  headers: { get(name: string): string | null };
  /** Where the answer came from, after redirects. */
  url: string;
  body: Buffer;
}

export interface Egress {
  /** One request, answered with any status and the whole body. Throws `EgressError` only. */
  fetch(url: string, init: EgressInit): Promise<EgressResponse>;
}

const MAX_REDIRECTS = 5;
const CONNECT_MS = 10_000;
const MAX_ADDRESSES = 4;
/** They belong to the connection, or would make the server see another request than the one that was checked. */
const HEADERS_NOT_TO_SET =
  /^(host|connection|content-length|transfer-encoding|upgrade|expect|te|trailer|keep-alive|proxy-.*)$/i;

/** Makes an egress guard. Throws if an entry of `allow` cannot be read. */
export function createEgress(options: EgressOptions): Egress {
  const rules = createAddressRules(options.allow, options.allowLoopback);
  const lookup = options.lookup ?? ((hostname: string) => dnsLookup(hostname, { all: true, verbatim: true }));
  return {
    async fetch(url, init) {
      const deadline = startDeadline(init.timeoutMs, init.signal);
      try {
        return await follow({ rules, lookup, deadline, init }, url);
      } finally {
        deadline.clear();
      }
    },
  };
}

interface Exchange {
  rules: AddressRules;
  lookup: (hostname: string) => Promise<{ address: string }[]>;
  deadline: Deadline;
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
    const { response, next } = await oneHop(exchange, request, hop > 0);
    if (!next) return response;
    if (hop >= maxRedirects) {
      throw new EgressError('too-many-redirects', `${hostOf(request.url)} redirected more than ${maxRedirects} times`, {
        sent: true,
      });
    }
    request = next;
  }
}

/** `answered`: an earlier hop has already had the request, so whatever happens now, it may have had its effect. */
async function oneHop(exchange: Exchange, request: HopRequest, answered: boolean) {
  const state = { connected: false };
  const connect = pinnedConnector(exchange, state);
  // No keep-alive: a kept connection that the server closes at the wrong moment would make a sent request of unknown
  // outcome out of nothing. The deadline replaces undici's own timeouts.
  const agent = new Agent({ pipelining: 0, connect, headersTimeout: 0, bodyTimeout: 0 });
  try {
    const response = await fetch(request.url, {
      method: request.method,
      headers: request.headers,
      body: request.body ?? null,
      redirect: 'manual',
      dispatcher: agent,
      signal: exchange.deadline.signal,
    });
    const target = redirectTarget(response, request.url);
    if (target) return { response: head(response, request), next: nextHop(request, response.status, target) };
    const body = await readBody(response, exchange.init.maxBytes);
    return { response: { ...head(response, request), body }, next: undefined };
  } catch (error) {
    throw explain(error, { exchange, request, sent: answered || state.connected });
  } finally {
    // Ends the socket where the body was not read to its end.
    void agent.destroy().catch(() => undefined);
  }
}

function head(response: Response, request: HopRequest): EgressResponse {
  return { status: response.status, headers: response.headers, url: request.url.href, body: Buffer.alloc(0) };
}

/** Resolves, checks, and connects to the address that was checked, so that the name cannot mean another one by then. */
function pinnedConnector(exchange: Exchange, state: { connected: boolean }): buildConnector.connector {
  return (options, callback) => {
    openSocket(exchange, options).then(
      (socket) => {
        state.connected = true;
        callback(null, socket);
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
}

async function openSocket(exchange: Exchange, options: buildConnector.Options): Promise<Socket> {
  const hostname = options.hostname.replace(/^\[|\]$/g, '');
  const port = Number(options.port || (options.protocol === 'https:' ? 443 : 80));
  const addresses = isIP(hostname) ? [hostname] : await addressesOf(exchange, hostname);
  const allowed = addresses.filter((address) => exchange.rules.allows({ hostname, port, address }));
  if (allowed.length === 0) throw refusal(hostname);
  const connect = buildConnector({ timeout: Math.min(CONNECT_MS, Math.ceil(exchange.deadline.remainingMs()) + 1) });
  let last: unknown;
  for (const address of allowed.slice(0, MAX_ADDRESSES)) {
    exchange.deadline.signal.throwIfAborted();
    try {
      return await connectTo(connect, { ...options, hostname: address });
    } catch (error) {
      last = error;
    }
  }
  throw last;
}

/** `options.host` keeps the name, from which the certificate is checked. */
function connectTo(connect: buildConnector.connector, options: buildConnector.Options): Promise<Socket> {
  return new Promise((resolve, reject) => {
    connect(options, (error, socket) => (socket ? resolve(socket) : reject(error ?? new Error('no connection'))));
  });
}

async function addressesOf(exchange: Exchange, hostname: string): Promise<string[]> {
  const found = await raceSignal(exchange.lookup(hostname), exchange.deadline.signal);
  return found.map((entry) => entry.address);
}

function refusal(hostname: string): EgressError {
  const entry = isIP(hostname) === 6 ? `[${hostname}]` : hostname;
  return new EgressError(
    'refused',
    `${entry} is not a public address, so it is refused; an operator can allow it with DROVER_EGRESS_ALLOW=${entry}`,
    { sent: false },
  );
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

async function readBody(response: Response, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes)
      throw new EgressError('too-large', `the answer is larger than ${maxBytes} bytes`, { sent: true });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

interface Failure {
  exchange: Exchange;
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
