/** Notices of one run's progress. Hints only: the receiver looks into the log. */
import type { BusMessage } from '../../../bus/bus.ts';
import type { Context } from '../../governance/context.ts';
import { LIMITS } from '../../../core/limits.ts';
import { LONGEST_TIMER_MS } from '../../../lib/start-timer.ts';
import type { WatchedThing } from '../../run-log/watch-positions.ts';

/** Shown live and not stored: a piece of an answer, or a call's progress. */
export type Delta = Extract<BusMessage, { kind: 'delta' | 'call_piece' | 'progress' }>;

export interface RunNotices {
  /**
   * Waits for the next delta; `look` once the log has more than `seq` or the signal has fired; `quiet` if nothing came until
   * `untilMs` (by `performance.now()`).
   */
  next: (seq: number, untilMs: number) => Promise<Delta | 'look' | 'quiet'>;
  /** Whether the log is known to have more than `seq`. */
  isBeyond: (seq: number) => boolean;
  /** Takes the pieces of answers up to a step that have come and not been read. */
  takePieces: (step: number) => Piece[];
  close: () => void;
}

export type Piece = Extract<Delta, { kind: 'delta' | 'call_piece' }>;

interface Listening {
  /** A run; or a thread, whose `seq` is the place of its newest run. */
  about: WatchedThing;
  /** If given, leaves out other turns' deltas. */
  turnId?: string | undefined;
  signal: AbortSignal;
}

/** Starts listening. */
export function listenToRun(context: Context, { about, turnId, signal }: Listening): RunNotices {
  const deltas = keepDeltas();
  let advancedTo = 0;
  let notify: () => void = () => undefined;
  const advance = (position: number) => {
    advancedTo = Math.max(advancedTo, position);
    notify();
  };

  const onAbort = () => notify();
  signal.addEventListener('abort', onAbort);
  const stops = [
    context.bus.watch(about.id, (message) => {
      if (message.kind === 'advanced') return advance(message.seq);
      if (isDelta(message) && (turnId === undefined || message.turnId === turnId)) deltas.push(message);
      notify();
    }),
    context.positions.watch(about, (position) => {
      if (position > advancedTo) advance(position);
    }),
    () => signal.removeEventListener('abort', onAbort),
  ];

  return {
    next: async (seq, untilMs) => {
      for (;;) {
        // Log events known by now were announced before the pieces that wait: they come first.
        if (signal.aborted || advancedTo > seq) return 'look';
        const delta = deltas.shift();
        if (delta) return delta;
        const leftMs = untilMs - performance.now();
        if (leftMs <= 0) return 'quiet';
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.min(leftMs, LONGEST_TIMER_MS));
          notify = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
    },
    isBeyond: (seq) => advancedTo > seq,
    takePieces: (step) => deltas.takePieces(step),
    close: () => {
      for (const stop of stops) stop();
    },
  };
}

/** Buffers deltas for a reader that may be slow: beyond a number of characters, drops the rest of the answer or call. */
function keepDeltas() {
  let kept: Delta[] = [];
  let chars = 0;
  /** The answer or call being dropped: a piece is worthless without those before it. */
  let leftOut = '';
  return {
    push(delta: Delta): void {
      const place = `${delta.turnId} ${delta.kind === 'progress' ? delta.callId : delta.step}`;
      if (place === leftOut) return;
      chars += sizeOf(delta);
      kept.push(delta);
      if (chars <= LIMITS.streamDeltaChars) return;
      leftOut = place;
      kept = [];
      chars = 0;
    },
    takePieces(step: number): Piece[] {
      const isTaken = (delta: Delta): delta is Piece => delta.kind !== 'progress' && delta.step <= step;
      const taken = kept.filter(isTaken);
      kept = kept.filter((delta) => !isTaken(delta));
      chars -= taken.reduce((sum, delta) => sum + sizeOf(delta), 0);
      return taken;
    },
    shift(): Delta | undefined {
      const delta = kept.shift();
      if (delta) chars -= sizeOf(delta);
      return delta;
    },
  };
}

function sizeOf(delta: Delta): number {
  if (delta.kind === 'progress') return (delta.message ?? '').length + 100;
  return delta.kind === 'delta' ? delta.delta.text.length : delta.text.length + 100;
}

function isDelta(message: BusMessage): message is Delta {
  return message.kind === 'delta' || message.kind === 'call_piece' || message.kind === 'progress';
}
