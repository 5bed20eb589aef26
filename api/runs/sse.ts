/** Server-sent events (WHATWG HTML, "Server-sent events") of a run. */
import type { Context } from '../../modules/governance/context.ts';
import { lookAhead, streamRun, type StreamItem, type StreamRequest } from '../../modules/runs/stream-run.ts';
import type { OtherContent } from '../kit/route.ts';
import { hintToSse, SHOWN, toSse } from './sse-view.ts';

export const SSE_CONTENT: OtherContent = {
  contentType: 'text/event-stream',
  description:
    'Events `status`, `thought`, `tool_call`, `tool_result`, `message`, `turn_error`, `done`. `id` is the sequence number in the ' +
    'run; pieces of an answer that is being written (`done: false`) have none.',
};

/** The stream's text in pieces, with a comment after 15 s without events. */
export async function* eventStream(context: Context, request: Omit<StreamRequest, 'types'>): AsyncGenerator<string> {
  // Sent at once, so that the client knows it is connected.
  yield ': connected\n\n';
  for await (const item of streamRun(context, { ...request, types: SHOWN })) {
    const text = toText(item);
    if (text !== undefined) yield text;
  }
}

/** Whether a stream from there would ever show anything. */
export async function hasMore(context: Context, request: Omit<StreamRequest, 'types' | 'signal'>): Promise<boolean> {
  const { isOver, events } = await lookAhead(context, { ...request, types: SHOWN });
  return !isOver || events.some((event) => toSse(event) !== null);
}

/** The text for an item; undefined if it is not shown. */
export function toText(item: StreamItem): string | undefined {
  if (item.kind === 'ping') return ': ping\n\n';
  if (item.kind === 'call_piece') return undefined;
  const view = item.kind === 'logged' ? toSse(item.event) : hintToSse(item);
  if (!view) return undefined;
  const id = view.id === undefined ? '' : `id: ${view.id}\n`;
  return `${id}event: ${view.event}\ndata: ${JSON.stringify(view.data)}\n\n`;
}
