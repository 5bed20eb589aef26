import { threadEventId } from '../kit/last-event-id.ts';
import type { Sent } from './form.ts';

/**
 * Frames as server-sent events without names; a log event's last frame has its position on the thread as id. `done` is sent at the
 * end of a complete stream.
 */
export async function* toServerSentEvents(sent: AsyncIterable<Sent<object>>, done?: string): AsyncGenerator<string> {
  let isWhole = false;
  for await (const { frames, at, isLast = false } of sent) {
    const lines = frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`);
    const last = lines.pop();
    yield last === undefined
      ? ': ping\n\n'
      : `${lines.join('')}${at === undefined ? '' : `id: ${threadEventId(at)}\n`}${last}`;
    isWhole = isLast;
  }
  if (isWhole && done !== undefined) yield `data: ${done}\n\n`;
}
