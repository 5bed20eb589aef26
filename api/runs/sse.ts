/** Server-sent events (WHATWG HTML, "Server-sent events") of a run. */
import type { Context } from '../../modules/governance/context.ts';
import { streamRun, type StreamRequest } from '../../modules/runs/stream-run.ts';
import type { OtherContent } from '../kit/route.ts';

export const SSE_CONTENT: OtherContent = {
  contentType: 'text/event-stream',
  description:
    'Events `status`, `thought`, `tool_call`, `tool_result`, `message`, `error`, `done`. `id` is the sequence number in the ' +
    'run; pieces of an answer that is being written (`done: false`) have none.',
};

/** The text of the stream, piece by piece; a comment when it has been quiet for 15 s. */
export async function* eventStream(context: Context, request: StreamRequest): AsyncGenerator<string> {
  // Something at once, so that a client knows that it is connected.
  yield ': connected\n\n';
  for await (const item of streamRun(context, request)) {
    if (item === 'ping') {
      yield ': ping\n\n';
      continue;
    }
    const id = item.id === undefined ? '' : `id: ${item.id}\n`;
    yield `${id}event: ${item.event}\ndata: ${JSON.stringify(item.data)}\n\n`;
  }
}
