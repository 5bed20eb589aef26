/** A run as it happens: the log after a position, then live. The bus only says when to look. */
import { isTerminal, type RunStatus } from '../core/events.ts';
import { LIMITS } from '../core/limits.ts';
import { ENDS_TURN, SHOWN, toSse, type SseEvent } from '../core/views/sse.ts';
import type { BusMessage } from '../bus/bus.ts';
import { listEvents, type LoggedEvent } from '../db/events.ts';
import { findRun } from '../db/runs.ts';
import type { Context } from '../engine/context.ts';

export interface StreamRequest {
  tenant: string;
  run: string;
  /** Sequence number after which to begin. */
  after: number;
  /** Only this turn's events, up to its end. */
  turn?: string | undefined;
  signal: AbortSignal;
}

export type StreamItem = SseEvent | 'ping';

const PAGE = 500;

/**
 * Yields durable events in order, each once, and deltas of the answer that is being written. Ends with the turn, or with
 * the run where no turn is given. Nothing is lost when the bus is: the log is looked at every few seconds anyway.
 */
export async function* streamRun(context: Context, request: StreamRequest): AsyncGenerator<StreamItem> {
  const news = listen(context, request);
  let { after } = request;
  let finishedSteps = 0;
  try {
    for (;;) {
      const page = await readPage(context, { ...request, after });
      for (const event of page.events) {
        after = event.seq;
        if (event.type === 'model.responded') finishedSteps = Math.max(finishedSteps, event.step ?? 0);
        const view = toSse(event);
        if (view) yield view;
        if (request.turn && ENDS_TURN.includes(event.type)) return;
      }
      if (page.events.length === PAGE) continue;
      if (page.isOver || request.signal.aborted) return;
      after = Math.max(after, page.lastSeq);
      for await (const item of news.untilAdvanced(after)) {
        if (item === 'ping') yield item;
        else if (item.step > finishedSteps) yield deltaView(item);
      }
    }
  } finally {
    news.close();
  }
}

/** Whether a stream from there on would show anything, now or later. */
export async function hasMore(context: Context, request: Omit<StreamRequest, 'signal'>): Promise<boolean> {
  const page = await readPage(context, { ...request, signal: AbortSignal.abort() });
  return !page.isOver || page.events.some((event) => toSse(event) !== null);
}

interface Page {
  events: LoggedEvent[];
  /** Where the log stood, events that are not shown included. */
  lastSeq: number;
  isOver: boolean;
}

async function readPage(context: Context, request: StreamRequest): Promise<Page> {
  const { tenant, run, after, turn } = request;
  return context.db.withTenant(tenant, async (tx) => {
    // The status first: what it says is over has all its events in the log already.
    const row = await findRun(tx, run);
    const events = await listEvents(tx, { run, after, limit: PAGE, types: [...SHOWN], turn });
    return { events, lastSeq: row?.last_seq ?? 0, isOver: !row || isTerminal(row.status as RunStatus) };
  });
}

type Delta = Extract<BusMessage, { kind: 'delta' }>;

function deltaView({ delta, turn, step }: Delta): SseEvent {
  const place = { turn_id: turn, step };
  return delta.type === 'text'
    ? { event: 'message', data: { content: delta.text, done: false, ...place } }
    : { event: 'thought', data: { content: delta.text, done: false, ...place } };
}

/** What the bus tells about a run, as something to wait for. */
function listen(context: Context, { run, turn, signal }: StreamRequest) {
  const deltas: Delta[] = [];
  let advancedTo = 0;
  let gap = false;
  let wake = () => {};
  const unsubscribe = context.bus.subscribe(run, (message) => {
    if (message.kind === 'advanced') advancedTo = Math.max(advancedTo, message.seq);
    if (message.kind === 'delta' && (turn === undefined || message.turn === turn)) deltas.push(message);
    wake();
  });
  const offGap = context.bus.onGap(() => {
    gap = true;
    wake();
  });
  const onAbort = () => wake();
  signal.addEventListener('abort', onAbort);
  let quietMs = 0;

  /** Yields deltas and pings until the log has moved on, or a while has passed, or the client has left. */
  async function* untilAdvanced(seq: number): AsyncGenerator<Delta | 'ping'> {
    const pollMs = LIMITS.streamPollSeconds * 1000;
    const lookAtMs = Date.now() + pollMs;
    while (!signal.aborted && !gap && advancedTo <= seq) {
      const delta = deltas.shift();
      if (delta) {
        quietMs = 0;
        yield delta;
        continue;
      }
      const waitMs = lookAtMs - Date.now();
      if (waitMs <= 0) break;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    gap = false;
    quietMs += pollMs;
    if (advancedTo > seq) quietMs = 0;
    if (quietMs >= LIMITS.streamPingSeconds * 1000) {
      quietMs = 0;
      yield 'ping';
    }
  }

  return {
    untilAdvanced,
    close: () => {
      unsubscribe();
      offGap();
      signal.removeEventListener('abort', onAbort);
    },
  };
}
