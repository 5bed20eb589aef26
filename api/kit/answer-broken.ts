/** Answers broken requests: not HTTP, too long to read, or not finished in time. */
import { STATUS_CODES, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { badRequest, DroverError } from '../../core/errors.ts';
import { newId } from '../../lib/new-id.ts';
import { problemOf } from '../../modules/problem-of.ts';
import { headersTooLong } from './check-request.ts';

/** More than any request may have, so that one just over its limit is refused in the usual way. */
export const MOST_HEADER_BYTES = 128 * 1024;

const LINGER_MS = 1000;

/** Answers with a problem and closes the connection; only closes it if `answer`, its last one, is under way. */
export function answerBroken(error: Error, socket: Duplex, answer: ServerResponse | undefined): void {
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
