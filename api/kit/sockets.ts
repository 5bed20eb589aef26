/** WebSockets: upgrade requests pass the usual middleware, which answers them unless a route takes the upgrade. */
import { ServerResponse, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { badRequest, DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { SharedRoom } from './shared-room.ts';
import { countOpen } from './count-open.ts';
import { holdToRoom } from './hold-to-room.ts';
import { createSocketWriter, type SocketWriter } from './socket-writer.ts';

export interface SocketLimits {
  perKey: number;
  messageBytes: number;
  bufferBytes: number;
  stallMs: number;
  pingMs: number;
  /** Time in ms for a peer to read what is queued and answer the server's close. */
  closeMs: number;
}

const DEFAULTS: SocketLimits = {
  perKey: LIMITS.socketsPerKey,
  messageBytes: LIMITS.socketMessageBytes,
  bufferBytes: LIMITS.socketBufferBytes,
  stallMs: LIMITS.socketStallSeconds * 1000,
  pingMs: LIMITS.streamPingSeconds * 1000,
  closeMs: LIMITS.socketCloseSeconds * 1000,
};

/** A WebSocket taken by a route, with its writer. */
export interface OpenSocket extends SocketWriter {
  socket: WebSocket;
}

export interface Sockets {
  /** Passes an upgrade request on with a response; returns false if it is not for a WebSocket. */
  receive(incoming: Upgrade, handle: (request: IncomingMessage, response: ServerResponse) => void): boolean;
  /** Whether the request can become a WebSocket. */
  canOpen(request: IncomingMessage): boolean;
  /** Makes it one. Throws 429 if the key has too many open, 400 if the request breaks the protocol. */
  open(request: IncomingMessage, by: Opener, serve: (open: OpenSocket) => void): void;
  /** Cuts off all open ones. */
  terminate(): void;
}

/** The WebSocket's tenant and key, and the size of its client's messages if other than usual. */
interface Opener {
  tenantId: string;
  keyId: string;
  messageBytes?: number;
}

export interface Upgrade {
  request: IncomingMessage;
  connection: Duplex;
  head: Buffer;
}

interface Waiting extends Upgrade {
  response: ServerResponse;
}

/** Closed because the client reads too slowly. */
const SLOW_CONSUMER = 4008;

const PROTOCOL_OF_KEY = 'bearer.';

/** A server's WebSockets. Closes all with 1001 when `closing` fires, and those whose peer answers no ping with 4008. */
export function createSockets(
  { log, bodyRoom }: Pick<Context, 'log'> & { bodyRoom: SharedRoom },
  closing: AbortSignal,
  given: Partial<SocketLimits> = {},
): Sockets {
  const limits = { ...DEFAULTS, ...given };
  const { serverFor, everySocket, faultOf } = createServers(limits.closeMs);
  const waiting = new WeakMap<IncomingMessage, Waiting>();
  const keys = new WeakMap<WebSocket, string>();
  const giveUp = (socket: WebSocket) => {
    if (socket.readyState !== socket.OPEN) return;
    log.warn({ key: keys.get(socket), buffered_bytes: socket.bufferedAmount }, 'a client of a stream is too slow');
    socket.close(SLOW_CONSUMER, 'The client is too slow.');
  };
  const alive = keepAlive(everySocket, { pingMs: limits.pingMs, giveUp });
  closing.addEventListener('abort', () => {
    alive.stop();
    for (const socket of everySocket()) socket.close(1001, 'The server stops.');
  });

  const perKey = countOpen(tooManySockets);

  return {
    receive(upgrade, handle) {
      if (!isForWebSocket(upgrade.request)) return false;
      const response = makeAnswerable(upgrade);
      waiting.set(upgrade.request, { ...upgrade, response });
      handle(upgrade.request, response);
      return true;
    },
    canOpen: (request) => waiting.has(request),
    open(request, { tenantId, keyId, messageBytes = limits.messageBytes }, serve) {
      const found = waiting.get(request);
      if (!found) throw new Error('the request is for no WebSocket');
      perKey.take(keyId, limits.perKey);
      waiting.delete(request);
      const { connection, head, response } = found;
      onceClosed(connection, () => {
        perKey.give(keyId);
        // Lets the request's log line tell how long it was open.
        response.emit('close');
      });
      if (connection.destroyed) return;
      serverFor(messageBytes).handleUpgrade(request, connection, head, (socket) => {
        response.detachSocket(request.socket);
        // A protocol error closes the connection; nothing else needs doing.
        socket.on('error', () => undefined);
        holdToRoom(socket, connection, bodyRoom.of(tenantId));
        keys.set(socket, keyId);
        alive.add(socket);
        if (closing.aborted) socket.close(1001, 'The server stops.');
        else serve({ socket, ...createSocketWriter(socket, { ...limits, onStall: () => giveUp(socket) }) });
      });
      const fault = faultOf(request);
      if (fault === undefined) return;
      response.setHeader('Sec-WebSocket-Version', '13');
      throw badRequest(`${fault}.`);
    },
    terminate() {
      for (const socket of everySocket()) socket.terminate();
    },
  };
}

/** A normal message has few frames of a few hundred packets each: each piece takes far more memory than its bytes. */
const PIECES = { maxFragments: 256, maxBufferedChunks: 4096 };

/** Makes one server per message size. */
function createServers(closeTimeout: number) {
  const servers = new Map<number, WebSocketServer>();
  const faults = new WeakMap<IncomingMessage, string>();
  const make = (maxPayload: number): WebSocketServer => {
    const made = { noServer: true, maxPayload, perMessageDeflate: false, closeTimeout, ...PIECES };
    const server = new WebSocketServer({ ...made, handleProtocols: pickProtocol });
    // Emitted before `handleUpgrade` returns; the listener then owes the answer.
    return server.on('wsClientError', ({ message }, _connection, request) => void faults.set(request, message));
  };
  return {
    /** Why a request did not become a WebSocket. */
    faultOf: (request: IncomingMessage) => faults.get(request),
    serverFor: (maxPayload: number): WebSocketServer => {
      const server = servers.get(maxPayload) ?? make(maxPayload);
      servers.set(maxPayload, server);
      return server;
    },
    everySocket: () => [...servers.values()].flatMap(({ clients }) => [...clients]),
  };
}

function isForWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** Makes a response for an upgrade. The key may come as a subprotocol, since browsers cannot set WebSocket headers. */
function makeAnswerable({ request, connection }: Upgrade): ServerResponse {
  connection.on('error', () => connection.destroy());
  const key = protocolsOf(request).find((name) => name.startsWith(PROTOCOL_OF_KEY));
  if (key !== undefined) request.headers.authorization ??= `Bearer ${key.slice(PROTOCOL_OF_KEY.length)}`;
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(request.socket);
  response.once('finish', () => request.socket.destroySoon());
  return response;
}

function protocolsOf({ headers }: IncomingMessage): string[] {
  return (headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
}

/** Browsers want one of their offers back: the one with the key only if there is no other. */
function pickProtocol(offered: Set<string>): string | false {
  const names = [...offered];
  return names.find((name) => !name.startsWith(PROTOCOL_OF_KEY)) ?? names[0] ?? false;
}

/** Acts at once if the connection is closed already. */
function onceClosed(connection: Duplex, act: () => void): void {
  if (connection.destroyed) act();
  else connection.once('close', act);
}

function tooManySockets(most: number): DroverError {
  const detail = `The key has ${most} WebSockets open here already.`;
  return new DroverError('too-many-sockets', 429, detail, { retryAfterSeconds: 60 });
}

/** Rounds that a ping may be queued behind unread data. */
const ROUNDS_UNSENT = 4;

/**
 * Pings all sockets in rounds, and gives up those that have not answered by the next. A ping still queued behind unread
 * data gets some more rounds: how much may be queued, and how long, is the writer's decision.
 */
function keepAlive(
  everySocket: () => WebSocket[],
  { pingMs, giveUp }: { pingMs: number; giveUp: (socket: WebSocket) => void },
) {
  const pings = new WeakMap<WebSocket, { isSent: boolean; rounds: number }>();
  const ping = (socket: WebSocket) => {
    const open = { isSent: false, rounds: 0 };
    pings.set(socket, open);
    socket.ping(undefined, undefined, () => (open.isSent = true));
  };
  const look = (socket: WebSocket) => {
    // A closing socket ends by itself; a slow client has until then to read the reason.
    if (socket.readyState !== socket.OPEN) return;
    const open = pings.get(socket);
    if (!open) ping(socket);
    else if (open.isSent || (open.rounds += 1) >= ROUNDS_UNSENT) giveUp(socket);
  };
  const timer = setInterval(() => everySocket().forEach(look), pingMs);
  timer.unref();
  return {
    add(socket: WebSocket): void {
      socket.on('pong', () => pings.delete(socket));
    },
    stop: () => clearInterval(timer),
  };
}
