/** A run as it happens: the log after a position, then live. The bus only says when to look. */
import { isTerminal, type EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import { listEvents, type LoggedEvent } from '../../db/events.ts';
import type { Database } from '../../db/database.ts';
import { findRun } from '../../db/runs.ts';
import { coalesced } from '../../lib/coalesce.ts';
import type { Context } from '../governance/context.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import { listenToRun, type Delta, type Piece, type RunNotices } from './streams/run-notices.ts';

export interface StreamRequest {
  tenantId: string;
  runId: string;
  /** Sequence number after which to begin. */
  after: number;
  /** Only this turn's events, up to its end. */
  turnId?: string | undefined;
  /** Which events; the others are passed. */
  types: readonly EventType[];
  /** Shows reasoning and calls while they are written, too. */
  withAllPieces?: boolean;
  signal: AbortSignal;
}

/** An event of the log, a hint that is in no log, or that nothing has come for a while. */
export type StreamItem = { kind: 'logged'; event: LoggedEvent } | Delta | { kind: 'ping' };

/** Events after which the stream of a turn closes: the client has something to do, or there is nothing left to wait for. */
const ENDS_STREAM: readonly string[] = [
  'turn.completed',
  'turn.failed',
  'turn.interrupted',
  'client_tools.requested',
] satisfies EventType[];

const PAGE = 500;

/**
 * Yields durable events in order, each once, and deltas of the answer that is being written. Ends with the turn, or with
 * the run where no turn is given. Nothing is lost when the bus is: one look every few seconds finds what it has not told,
 * for all streams together.
 */
export async function* streamRun(context: Context, request: StreamRequest): AsyncGenerator<StreamItem> {
  const { runId: id, turnId, signal } = request;
  const notices = listenToRun(context, { about: { kind: 'run', id }, turnId, signal });
  try {
    yield* follow(context, request, notices);
  } finally {
    notices.close();
  }
}

/** Reads for a stream that is open: the database may be away for a while, and whoever watches need not notice. */
export function whileOpen<T>({ signal }: Pick<StreamRequest, 'signal'>, read: () => Promise<T>): Promise<T> {
  return retryWhileUnavailable(read, { forMs: LIMITS.streamRetrySeconds * 1000, signal });
}

/** The first items of a stream from a position on, and whether nothing could follow them. */
export function lookAhead(
  context: Context,
  request: Omit<StreamRequest, 'signal'>,
): Promise<{ events: LoggedEvent[]; isOver: boolean }> {
  return readPage(context, request);
}

async function* follow(context: Context, request: StreamRequest, notices: RunNotices): AsyncGenerator<StreamItem> {
  const { withAllPieces = false } = request;
  const at = { seq: request.after, finishedStep: 0, quietSinceMs: performance.now() };
  for (;;) {
    const page = await whileOpen(request, () => readPage(context, { ...request, after: at.seq }));
    for (const event of page.events) {
      // What came while the page was read was said before it.
      if (isStep(event)) yield* piecesOf(notices, { after: at.finishedStep, step: event.step ?? 0, withAllPieces });
      yield { kind: 'logged', event };
      if (isStep(event)) at.finishedStep = Math.max(at.finishedStep, event.step ?? 0);
    }
    if (page.isOver || page.endsTurn) return;
    at.seq = page.lastSeq;
    if (page.events.length > 0) at.quietSinceMs = performance.now();
    if (!page.hasMore) yield* live(notices, at, withAllPieces);
    if (request.signal.aborted) return;
  }
}

/** A model's answer in the conversation, not one that Drover asked for itself. */
function isStep({ type, payload }: LoggedEvent): boolean {
  return type === 'model.responded' && !(typeof payload === 'object' && payload !== null && 'tool' in payload);
}

function* piecesOf(
  notices: RunNotices,
  steps: { after: number; step: number; withAllPieces: boolean },
): Generator<StreamItem> {
  for (const piece of notices.takePieces(steps.step)) {
    if (isShown(piece, steps.withAllPieces) && piece.step > steps.after) yield piece;
  }
}

/** Where nothing else was asked for, reasoning and calls are shown once they are whole (docs/api.md, Streams). */
function isShown(piece: Piece, withAllPieces: boolean): boolean {
  return withAllPieces || (piece.kind === 'delta' && piece.delta.type === 'text');
}

/** What happens between two looks into the log. Pieces of an answer that the log has in full already are left out. */
async function* live(
  notices: RunNotices,
  at: { seq: number; finishedStep: number; quietSinceMs: number },
  withAllPieces: boolean,
): AsyncGenerator<StreamItem> {
  for (;;) {
    const notice = await notices.next(at.seq, at.quietSinceMs + LIMITS.streamPingSeconds * 1000);
    if (notice === 'look') return;
    at.quietSinceMs = performance.now();
    if (notice === 'quiet') yield { kind: 'ping' };
    else if (notice.kind === 'progress' || (isShown(notice, withAllPieces) && notice.step > at.finishedStep))
      yield notice;
  }
}

interface Page {
  events: LoggedEvent[];
  /** Where to go on: events that are not shown are passed, too. */
  lastSeq: number;
  /** Whether there is more to read at once. */
  hasMore: boolean;
  isOver: boolean;
  endsTurn: boolean;
}

/** Reads under way, for each database of a context; nothing is kept of one that has ended. */
const shared = new WeakMap<Database, ReturnType<typeof sharedReads>>();

/** Whoever asks for the same page while it is being read gets the one that is read after it: what was there when it asked. */
const sharedReads = () => coalesced(([read]: readonly [ReadPage, ...ReadPage[]]) => read());
type ReadPage = () => Promise<Page>;

/** Read once for all streams of this process that stand at the same place: an event costs a read, however many watch. */
function readPage(context: Context, request: Omit<StreamRequest, 'signal'>): Promise<Page> {
  const reads = shared.get(context.db) ?? sharedReads();
  shared.set(context.db, reads);
  const { tenantId, runId, after, turnId = '', types } = request;
  return reads([tenantId, runId, after, turnId, types].join('/'), () => readPageAlone(context, request));
}

async function readPageAlone(context: Context, request: Omit<StreamRequest, 'signal'>): Promise<Page> {
  const { tenantId, runId, after, turnId, types } = request;
  return context.db.withTenant(tenantId, async (tx) => {
    // The status first: what it says is over has all its events in the log already.
    const row = await findRun(tx, runId);
    const page = { limit: PAGE, maxBytes: LIMITS.streamPageBytes };
    const { events, hasMore: isFull } = await listEvents(tx, { runId, after, ...page, types: [...types], turnId });
    const lastShown = events.at(-1)?.seq ?? after;
    // What was committed between the two queries may have ended the run, of which the row knows nothing yet: the bus has
    // told of it already and will not do so again. A position that nothing has reached yet says nothing of the kind.
    const isAhead = row !== undefined && events.length > 0 && lastShown > row.last_seq;
    return {
      events,
      hasMore: isFull || isAhead,
      lastSeq: isFull ? lastShown : Math.max(lastShown, row?.last_seq ?? 0),
      isOver: !isFull && (!row || isTerminal(row.status)),
      endsTurn: turnId !== undefined && events.some((event) => ENDS_STREAM.includes(event.type)),
    };
  });
}
