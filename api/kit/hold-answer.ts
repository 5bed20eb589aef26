import type { ServerResponse } from 'node:http';
import type { AnswerRoom } from './answer-room.ts';

/** Longest answer in characters that takes no room: the kernel takes most of it at once. */
const SMALL_CHARS = 16 * 1024;

/**
 * Returns what to send of an answer. A large one takes the tenant's room until it is sent or its client has gone; throws 503
 * for one that is only read, if there is none. It is sent as bytes: of a text that waits Node keeps a copy, for which it takes
 * three times the size, beside it.
 */
export function holdAnswer(
  text: string,
  response: ServerResponse,
  { room, tenantId }: { room: AnswerRoom; tenantId: string },
): string | Buffer {
  if (text.length <= SMALL_CHARS) return text;
  const bytes = Buffer.from(text);
  // Of a client that has left already no event would tell.
  if (!response.req.socket.destroyed) room.hold(response, { tenantId, bytes: bytes.length });
  return bytes;
}
