/** A server that has a recorded log: it shows it by the folds of the real one, as far as it has happened by then. */
import type { AnyMessage, SessionNotification, Stream } from '@agentclientprotocol/sdk';
import { toText } from '../../../api/runs/sse.ts';
import { SHOWN } from '../../../api/runs/sse-view.ts';
import { deltaFrame, foldEvent as foldForSocket, FOLDED } from '../../../api/sessions/session-view.ts';
import { beforeTurns } from '../../../api/sessions/turn-view.ts';
import { ACP, type AcpFrame } from '../../../api/wire/acp.ts';
import { formFor, permissionFor } from '../../../api/wire/acp-asks.ts';
import { tellUpdates } from '../../../api/wire/acp-session.ts';
import { agUi, type AgUiClient } from '../../../api/wire/ag-ui.ts';
import { foldEvent } from '../../../api/wire/fold-turn.ts';
import { showTurn, type Sent } from '../../../api/wire/form.ts';
import { positionOfThreadEvent } from '../../../api/kit/last-event-id.ts';
import { framesOf } from '../../../api/wire/replay-thread.ts';
import { toServerSentEvents } from '../../../api/wire/server-sent-events.ts';
import { beforeTurn, type TurnView } from '../../../api/wire/turn-view.ts';
import { UI_STREAM } from '../../../api/wire/ui-stream.ts';
import { fromSessionSeq, type SessionPosition } from '../../../core/session-position.ts';
import type { LoggedEvent } from '../../../modules/runs/read-runs.ts';
import type { StreamItem } from '../../../modules/runs/stream-run.ts';
import type { Recording } from './recordings.ts';
import type { Cut, WireServer } from './wire-client.ts';

/** With the bytes of each frame that it has sent, of all connections. */
interface RecordedServer extends WireServer {
  sizes: number[];
  /** How much of the recording has been told: it has happened by then. */
  told: () => number;
}

/** `now`: how many items have happened when a client comes; the others happen while it is there. */
export function recordedServer({ turn, items }: Recording, now: number): RecordedServer {
  const sizes: number[] = [];
  let told = now;
  const logged = (from: number, to: number): LoggedEvent[] =>
    items.slice(from, to).flatMap((item) => (item.kind === 'logged' ? [item.event] : []));
  const head = logged(0, now).at(-1)?.seq ?? 0;
  const shown = { ...turn, head };
  const viewAt = (seq: number): TurnView => {
    const view = beforeTurn(turn.turnId);
    for (const event of logged(0, items.length))
      if (event.seq >= turn.start && event.seq <= seq) foldEvent(view, event);
    return view;
  };
  async function* after(seq: number): AsyncGenerator<StreamItem> {
    for (const [place, item] of items.entries()) {
      const isMissed = item.kind === 'logged' ? item.event.seq <= seq : place < now;
      told = Math.max(told, place + 1);
      if (!isMissed) yield item;
    }
  }
  const show = (seq: number) => ({ view: viewAt(seq), turn: shown, items: after(seq) });
  const noted = async function* (texts: AsyncIterable<string>): AsyncGenerator<string> {
    for await (const text of texts) {
      for (const frame of text.split(/(?<=\n\n)/)) {
        sizes.push(Buffer.byteLength(frame));
        yield frame;
      }
    }
  };
  const respond = (texts: AsyncIterable<string>) =>
    new Response(ReadableStream.from(encoded(noted(texts))), { headers: { 'content-type': 'text/event-stream' } });

  return {
    sizes,
    told: () => told,
    async fetch(url, init) {
      const { pathname } = new URL(String(url instanceof Request ? url.url : url));
      const given = new Headers(init?.headers).get('last-event-id');
      if (pathname.endsWith('/ui-stream')) {
        return respond(toServerSentEvents(showTurn(show(turn.start), UI_STREAM), '[DONE]'));
      }
      if (pathname.startsWith('/ag-ui/')) {
        const from = Math.max(
          turn.start,
          Math.min(given === null ? head : positionOfThreadEvent(Number(given)).seq, head),
        );
        const form = agUi((await new Response(init?.body ?? null).json()) as AgUiClient);
        return respond(toServerSentEvents(showTurn(show(from), form)));
      }
      return respond(nativeTexts(after(Number(given ?? 0))));
    },
    socket(given) {
      const { seq } = fromSessionSeq(given);
      return noted(socketTexts(items, { after: seq, pieces: after(seq) }));
    },
    acp: (cut) =>
      acpStream(cut, sizes, async (request, send) => {
        const from = request.after;
        const update = (params: SessionNotification) => send({ jsonrpc: '2.0', method: 'session/update', params });
        const tell = (frames: readonly AcpFrame[], at: SessionPosition | undefined) =>
          tellUpdates({ sessionId: turn.threadId, update }, frames, at);
        let view = beforeTurn('');
        for (const event of logged(0, now)) {
          if (event.type === 'turn.started') view = beforeTurn(event.turn_id ?? '');
          const frames = framesOf(view, event, ACP);
          if (event.seq > from) await tell(frames, { place: turn.place, seq: event.seq });
        }
        await send({ jsonrpc: '2.0', id: request.id, result: {} });
        if (view.end) return;
        for await (const sent of showTurn(show(Math.max(head, from)), ACP)) {
          await tell(sent.frames, sent.at);
          await ask(sent, turn.threadId, send);
        }
      }),
  };
}

async function* encoded(texts: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  for await (const text of texts) yield Buffer.from(text);
}

async function* nativeTexts(items: AsyncIterable<StreamItem>): AsyncGenerator<string> {
  for await (const item of items) {
    if (item.kind === 'logged' && !(SHOWN as readonly string[]).includes(item.event.type)) continue;
    const text = toText(item);
    if (text !== undefined) yield text;
  }
}

/** As `GET /agent/stream/{id}` folds it: from the turn's start on. */
async function* socketTexts(
  items: readonly StreamItem[],
  { after, pieces }: { after: number; pieces: AsyncIterable<StreamItem> },
): AsyncGenerator<string> {
  let turn = beforeTurns();
  const isFolded = ({ type }: LoggedEvent) => (FOLDED as readonly string[]).includes(type);
  for (const item of items) {
    if (item.kind !== 'logged' || item.event.seq > after || !isFolded(item.event)) continue;
    ({ turn } = foldForSocket(turn, { event: item.event, place: 1 }, 'session'));
  }
  for await (const item of pieces) {
    if (item.kind === 'delta') yield JSON.stringify(deltaFrame(item, 'session', new Date(0)));
    if (item.kind !== 'logged' || item.event.seq <= after || !isFolded(item.event)) continue;
    const folded = foldForSocket(turn, { event: item.event, place: 1 }, 'session');
    ({ turn } = folded);
    if (folded.frame) yield JSON.stringify(folded.frame);
  }
}

type Send = (message: AnyMessage) => Promise<void>;

async function ask({ frames }: Sent<AcpFrame>, sessionId: string, send: Send): Promise<void> {
  for (const frame of frames) {
    if (frame.kind !== 'paused') continue;
    for (const asked of frame.asks) {
      const { id, kind } = asked.ask;
      if (kind === 'client_tool') continue;
      const isQuestion = kind === 'question';
      const method = isQuestion ? 'elicitation/create' : 'session/request_permission';
      const params = isQuestion ? formFor(asked, sessionId) : permissionFor(asked, sessionId);
      await send({ jsonrpc: '2.0', id, method, params });
    }
  }
}

interface LoadRequest {
  id: string | number | null;
  /** The sequence number in the run. */
  after: number;
}

/** The agent's side of a connection: `load` answers `session/load`. It breaks after so many bytes. */
function acpStream(
  cut: Cut | undefined,
  sizes: number[],
  load: (request: LoadRequest, send: Send) => Promise<void>,
): Stream {
  let left = cut?.bytes ?? Infinity;
  let queue: ReadableStreamDefaultController<AnyMessage> | undefined;
  const readable = new ReadableStream<AnyMessage>({ start: (controller) => void (queue = controller) });
  const close = () => {
    left = -1;
    queue?.close();
    queue = undefined;
  };
  const send: Send = async (message) => {
    const size = Buffer.byteLength(JSON.stringify(message));
    if (left < 0) return;
    left -= size;
    sizes.push(size);
    if (left < 0) close();
    else queue?.enqueue(structuredClone(message));
  };
  const writable = new WritableStream<AnyMessage>({
    async write(message) {
      if (!('method' in message) || !('id' in message)) return;
      const { id, method, params } = message as { id: number; method: string; params: Loaded };
      if (method === 'initialize') return send({ jsonrpc: '2.0', id, result: { protocolVersion: 1 } });
      if (method !== 'session/load') {
        return send({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } });
      }
      const { _meta: meta } = params;
      await load({ id, after: fromSessionSeq(meta?.drover?.after ?? 0).seq }, send);
    },
    close,
    abort: close,
  });
  return { readable, writable };
}

interface Loaded {
  _meta?: { drover?: { after?: number } };
}
