/** Streams a run: the log after a position, then live. The bus only says when to look. */
import type { EventType } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { LoggedEvent } from '../../db/events.ts';
import type { Context } from '../governance/context.ts';
import { retryWhileUnavailable } from '../run-log/retry-while-unavailable.ts';
import type { LogPageRequest } from '../run-log/shared-reads.ts';
import { listenToRun, type Delta, type Piece, type RunNotices } from './streams/run-notices.ts';

/** The stream's start and content; with a turn, it ends with that turn. */
export interface StreamRequest extends LogPageRequest {
  /** Also shows reasoning and calls while they are written. */
  withAllPieces?: boolean;
  signal: AbortSignal;
}

/** A log event, a hint that is in no log, or a ping after a quiet while. */
export type StreamItem = { kind: 'logged'; event: LoggedEvent } | Delta | { kind: 'ping' };

/** Events that close a turn's stream: the client must act, or there is nothing left to wait for. */
const ENDS_STREAM: readonly string[] = [
  'turn.completed',
  'turn.failed',
  'turn.interrupted',
  'client_tools.requested',
] satisfies EventType[];

/**
 * Yields durable events in order, each once, and deltas of the answer being written. Ends with the turn (or when the client
 * must act), or without a turn with the run. Nothing is lost if the bus is: a look every few seconds, shared by all streams,
 * finds what it missed.
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

/** Reads for an open stream: retries while the database is briefly away, so that watchers need not notice. */
export function whileOpen<T>({ signal }: Pick<StreamRequest, 'signal'>, read: () => Promise<T>): Promise<T> {
  return retryWhileUnavailable(read, { forMs: LIMITS.streamRetrySeconds * 1000, signal });
}

/** The first items of a stream after a position, and whether nothing can follow. */
export function lookAhead(
  context: Context,
  request: LogPageRequest,
): Promise<{ events: LoggedEvent[]; isOver: boolean }> {
  return context.reads.logPage(request);
}

async function* follow(context: Context, request: StreamRequest, notices: RunNotices): AsyncGenerator<StreamItem> {
  const { withAllPieces = false } = request;
  const at = { seq: request.after, finishedStep: 0, quietSinceMs: performance.now() };
  for (;;) {
    const page = await whileOpen(request, () => context.reads.logPage({ ...request, after: at.seq }));
    for (const event of page.events) {
      // Pieces that came while the page was read precede this event.
      if (isStep(event)) yield* piecesOf(notices, { after: at.finishedStep, step: event.step ?? 0, withAllPieces });
      yield { kind: 'logged', event };
      if (isStep(event)) at.finishedStep = Math.max(at.finishedStep, event.step ?? 0);
    }
    if (page.isOver || (request.turnId !== undefined && page.events.some(endsStream))) return;
    at.seq = page.lastSeq;
    if (page.events.length > 0) at.quietSinceMs = performance.now();
    if (!page.hasMore) yield* live(notices, at, withAllPieces);
    if (request.signal.aborted) return;
  }
}

const endsStream = ({ type }: LoggedEvent) => ENDS_STREAM.includes(type);

/** Whether the event is a model's answer in the conversation, not one to a question of Drover itself. */
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

/** By default, reasoning and calls are shown only when complete (docs/api.md, Streams). */
function isShown(piece: Piece, withAllPieces: boolean): boolean {
  return withAllPieces || (piece.kind === 'delta' && piece.delta.type === 'text');
}

/** Yields hints between two looks into the log, without pieces of answers that the log has in full. */
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
