/** Answers broken requests: not HTTP, too long to read, or not finished in time. */
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { badRequest, DroverError } from '../../core/errors.ts';
import { newId } from '../../lib/new-id.ts';
import type { TakeTurn } from '../../lib/take-turns.ts';
import { problemOf } from '../../modules/problem-of.ts';
import { headersTooLong } from './check-request.ts';

/** More than any request may have, so that one just over its limit is refused in the usual way. */
export const MOST_HEADER_BYTES = 128 * 1024;

const LINGER_MS = 1000;

interface Faults {
  /** Answers what is broken on a connection; `answer`: its last one, if there is any. */
  answer: (error: Error, socket: Duplex, answer: ServerResponse | undefined) => void;
  /** Answers a request whose turn has come and that the fault of its connection has cut short; false for any other. */
  cutShort: (response: ServerResponse) => boolean;
}

/** A fault behind whole requests has its turn after them: they are carried out, so they are answered (RFC 9112, section 9.6). */
export function answerFaults(takeTurn: TakeTurn): Faults {
  const waiting = new WeakMap<Duplex, Error>();
  return {
    answer(error, socket, answer) {
      if (!answer?.req.complete || answer.closed) {
        answerBroken(error, socket, answer);
      } else if (!waiting.has(socket)) {
        waiting.set(socket, error);
        takeTurn({ connection: answer.req.socket }, () => answerBroken(error, socket, undefined));
      }
    },
    cutShort(response) {
      const { socket, complete } = response.req;
      const error = complete ? undefined : waiting.get(socket);
      if (error) answerBroken(error, socket, response);
      return error !== undefined;
    },
  };
}

/** Answers with a problem and closes the connection; only closes it if `answer`, its last one, is under way. */
function answerBroken(error: Error, socket: Duplex, answer: ServerResponse | undefined): void {
  // Already answered: anything else on this connection is as broken.
  if (socket.writableEnded) return;
  if (!socket.writable || (answer?.headersSent && !answer.writableFinished)) {
    socket.destroy();
    return;
  }
  const problem = asProblem('code' in error ? error.code : undefined);
  const body = JSON.stringify(problemOf(problem, { path: '', requestId: newId() }));
  const lines = [
    `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'connection: close',
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
  // Unread data would reset the connection before the answer arrives.
  socket.resume();
  const linger = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once('end', () => socket.destroy());
  socket.once('close', () => clearTimeout(linger));
}

function asProblem(code: unknown): DroverError {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new DroverError('request-timeout', 408, 'The request did not come to its end in time.');
  }
  return code === 'HPE_HEADER_OVERFLOW' ? headersTooLong(MOST_HEADER_BYTES) : badRequest('This is no HTTP request.');
}
