import type { ServerResponse } from 'node:http';
import type { Room } from './shared-room.ts';

/** Longest answer in characters that takes no room: the kernel takes most of it at once. */
const SMALL_CHARS = 16 * 1024;

/**
 * Returns what to send of an answer. A large one takes room until it is sent or its client has gone; throws 503 if there is
 * none. It is sent as bytes: of a text that waits Node keeps a copy, for which it takes three times the size, beside it.
 */
export function holdAnswer(text: string, response: ServerResponse, room: Room): string | Buffer {
  if (text.length <= SMALL_CHARS) return text;
  const bytes = Buffer.from(text);
  // Of a client that has left already no event would tell.
  if (response.req.socket.destroyed) return bytes;
  const { length } = bytes;
  room.take(length);
  response.once('close', () => room.give(length));
  return bytes;
}
