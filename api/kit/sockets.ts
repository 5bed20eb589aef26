/** WebSockets: requests that pass the same middleware as any other, and are answered by it unless a route takes the upgrade. */
import { ServerResponse, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { badRequest, DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import type { BodyRoom } from './body-room.ts';
import { holdToRoom } from './hold-to-room.ts';
import { createSocketWriter, type SocketWriter } from './socket-writer.ts';

export interface SocketLimits {
  perKey: number;
  messageBytes: number;
  bufferBytes: number;
  stallMs: number;
  pingMs: number;
  /** How long a peer has to answer the server's close, with what waits for it before that. */
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

/** A WebSocket that a route has taken, and the way to write to it. */
export interface OpenSocket extends SocketWriter {
  socket: WebSocket;
}

export interface Sockets {
  /** Passes a request for an upgrade on as one that can be answered; gives false if it is none for a WebSocket. */
  receive(incoming: Upgrade, handle: (request: IncomingMessage, response: ServerResponse) => void): boolean;
  /** Whether the request can become a WebSocket. */
  canOpen(request: IncomingMessage): boolean;
  /** Makes it one. Throws 429 where the key has too many open, 400 where the request breaks the protocol. */
  open(request: IncomingMessage, by: Opener, serve: (open: OpenSocket) => void): void;
  /** Cuts off all that are open. */
  terminate(): void;
}

/** Whose WebSocket it is, and how much its client may say at once, where that is not the usual. */
interface Opener {
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

/** Closed since the client takes too slowly what it asked for. */
const SLOW_CONSUMER = 4008;

const PROTOCOL_OF_KEY = 'bearer.';

/** WebSockets of a server. All are closed with 1001 when `closing` fires, and with 4008 where the peer answers no ping. */
export function createSockets(
  { log, bodyRoom }: Pick<Context, 'log'> & { bodyRoom: BodyRoom },
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

  const perKey = countPerKey(limits.perKey);

  return {
    receive(upgrade, handle) {
      if (!isForWebSocket(upgrade.request)) return false;
      const response = makeAnswerable(upgrade);
      waiting.set(upgrade.request, { ...upgrade, response });
      handle(upgrade.request, response);
      return true;
    },
    canOpen: (request) => waiting.has(request),
    open(request, { keyId, messageBytes = limits.messageBytes }, serve) {
      const found = waiting.get(request);
      if (!found) throw new Error('the request is for no WebSocket');
      perKey.take(keyId);
      waiting.delete(request);
      const { connection, head, response } = found;
      onceClosed(connection, () => {
        perKey.give(keyId);
        // The request's line in the log tells how long it was open.
        response.emit('close');
      });
      if (connection.destroyed) return;
      serverFor(messageBytes).handleUpgrade(request, connection, head, (socket) => {
        response.detachSocket(request.socket);
        // What breaks the protocol closes the connection, which is all there is to say about it.
        socket.on('error', () => undefined);
        holdToRoom(socket, connection, bodyRoom);
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

/** A message comes in a few frames, and a frame in a few hundred packets: each piece takes far more than its bytes. */
const PIECES = { maxFragments: 256, maxBufferedChunks: 4096 };

/** One for each size of messages. */
function createServers(closeTimeout: number) {
  const servers = new Map<number, WebSocketServer>();
  const faults = new WeakMap<IncomingMessage, string>();
  const make = (maxPayload: number): WebSocketServer => {
    const made = { noServer: true, maxPayload, perMessageDeflate: false, closeTimeout, ...PIECES };
    const server = new WebSocketServer({ ...made, handleProtocols: pickProtocol });
    // Told before `handleUpgrade` returns; the answer is then left to whoever listens.
    return server.on('wsClientError', ({ message }, _connection, request) => void faults.set(request, message));
  };
  return {
    /** What is wrong with a request that did not become a WebSocket. */
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

/** The key may come as a subprotocol, since browsers set no headers on a WebSocket. */
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

/** Browsers want one of those that they have offered: the key is repeated only where there is no other. */
function pickProtocol(offered: Set<string>): string | false {
  const names = [...offered];
  return names.find((name) => !name.startsWith(PROTOCOL_OF_KEY)) ?? names[0] ?? false;
}

/** Of a connection that may be closed already. */
function onceClosed(connection: Duplex, act: () => void): void {
  if (connection.destroyed) act();
  else connection.once('close', act);
}

/** How many each key has. `take` throws 429 where the key has all it may. */
function countPerKey(most: number) {
  const counts = new Map<string, number>();
  return {
    take(keyId: string): void {
      const count = counts.get(keyId) ?? 0;
      if (count >= most) {
        const detail = `The key has ${most} WebSockets open here already.`;
        throw new DroverError('too-many-sockets', 429, detail, { retryAfterSeconds: 60 });
      }
      counts.set(keyId, count + 1);
    },
    give(keyId: string): void {
      const left = (counts.get(keyId) ?? 1) - 1;
      if (left > 0) counts.set(keyId, left);
      else counts.delete(keyId);
    },
  };
}

/** Rounds of pings for which one may stand behind what the client has not taken yet. */
const ROUNDS_UNSENT = 4;

/**
 * Pings everybody in rounds, and gives those up who have not answered by the next one. A ping that stands behind what its client
 * is still taking has not been sent: how much may wait, and how long, is for its writer to judge, so that this waits for some rounds.
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
    // One that is being closed ends by itself: whoever is slow may read till then why.
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
