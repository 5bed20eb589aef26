import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A request, or an upgrade, which has no response yet: none follows it on its connection. */
interface Asked {
  connection: Socket;
  response?: ServerResponse;
}

interface Waiting extends Asked {
  serve: () => void;
  /** Of an upgrade: ends what stands in for Node meanwhile. */
  stopListening?: () => void;
}

interface Line {
  /** Of the request that is being served, or was last. */
  answer: ServerResponse;
  waiting: Waiting[];
}

/** Serves a request at once if it is alone on its connection, else in its turn. */
export type TakeTurn = (asked: Asked, serve: () => void) => void;

/**
 * Lets the requests of a connection be served one after the other. Node parses thousands that come together at once: served
 * together they would keep the process from everybody else, so between two of them others have their turn. Closes a
 * connection on which more than `mostWaiting` wait. Of those that wait none is served once the connection ends.
 */
export function takeTurns(mostWaiting: number): TakeTurn {
  const lines = new WeakMap<Socket, Line>();
  const begin = ({ connection, response, serve }: Waiting, waiting: Waiting[]): void => {
    if (response) lines.set(connection, { answer: response, waiting });
    else lines.delete(connection);
    if (response && waiting.length > 0) goOnAfter(response, waiting);
    serve();
  };
  const goOnAfter = (answer: ServerResponse, waiting: Waiting[]) =>
    answer.once('close', () => setImmediate(goOn, waiting));
  const goOn = (waiting: Waiting[]): void => {
    const next = waiting.shift();
    if (!next?.connection.writable) return;
    next.stopListening?.();
    begin(next, waiting);
  };
  return ({ connection, response }, serve) => {
    // The rest of what has been parsed of a connection that has just been closed.
    if (connection.destroyed) return;
    const asked: Waiting = { connection, serve, ...(response && { response }) };
    const { answer, waiting = [] } = lines.get(connection) ?? {};
    if (waiting.length >= mostWaiting) connection.destroy();
    else if (waiting.length > 0 || answer?.closed === false) {
      // Only now, as most requests have none behind them.
      if (answer && waiting.length === 0) goOnAfter(answer, waiting);
      waiting.push(asked);
      if (!response) asked.stopListening = listen(connection, () => lines.get(connection)?.answer);
    } else begin(asked, waiting);
  };
}

/** Node no longer listens to a connection that is to be upgraded: an answer still being sent would get stuck. Returns what ends this. */
function listen(connection: Socket, answer: () => ServerResponse | undefined): () => void {
  const onDrain = () => answer()?.emit('drain');
  connection.on('error', ignore).on('drain', onDrain);
  return () => void connection.off('error', ignore).off('drain', onDrain);
}

/** The connection closes by itself. */
function ignore(): void {}
