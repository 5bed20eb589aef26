/** What the bus tells about one run, as something to wait for. A hint only: whoever waits looks into the log anyway. */
import type { Bus, BusMessage } from '../../../bus/bus.ts';
import { LIMITS } from '../../../core/limits.ts';

/** What is shown live and stored nowhere: a piece of an answer, or how far a call is. */
export type Delta = Extract<BusMessage, { kind: 'delta' | 'progress' }>;

export interface RunNotices {
  /** Waits for the next piece of an answer; undefined once the log is worth a look: it moved on beyond `seq`, the bus had a gap, a while has passed, or `signal` fired. */
  next: (seq: number) => Promise<Delta | undefined>;
  close: () => void;
}

/** Listens from now on; `turn` leaves out the deltas of other turns. */
export function listenToRun(
  bus: Bus,
  about: { runId: string; turnId?: string | undefined; signal: AbortSignal },
): RunNotices {
  const { runId, turnId, signal } = about;
  const deltas = keepDeltas();
  let advancedTo = 0;
  let hadGap = false;
  let lookAtMs = Number.POSITIVE_INFINITY;
  let notify: () => void = () => undefined;

  const onAbort = () => notify();
  signal.addEventListener('abort', onAbort);
  const stops = [
    bus.subscribe(runId, (message) => {
      if (message.kind === 'advanced') advancedTo = Math.max(advancedTo, message.seq);
      const isDelta = message.kind === 'delta' || message.kind === 'progress';
      if (isDelta && (turnId === undefined || message.turnId === turnId)) deltas.push(message);
      notify();
    }),
    bus.onGap(() => {
      hadGap = true;
      notify();
    }),
    () => signal.removeEventListener('abort', onAbort),
  ];

  const isTimeToLook = (seq: number) => signal.aborted || hadGap || advancedTo > seq || Date.now() >= lookAtMs;

  return {
    next: async (seq) => {
      if (lookAtMs === Number.POSITIVE_INFINITY) lookAtMs = Date.now() + LIMITS.streamPollSeconds * 1000;
      for (;;) {
        const delta = deltas.shift();
        if (delta) return delta;
        if (isTimeToLook(seq)) break;
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.max(1, lookAtMs - Date.now()));
          notify = () => {
            clearTimeout(timer);
            resolve();
          };
        });
      }
      hadGap = false;
      lookAtMs = Number.POSITIVE_INFINITY;
      return undefined;
    },
    close: () => {
      for (const stop of stops) stop();
    },
  };
}

/** Pieces for a reader that may be slow: beyond so many characters those of an answer, or of a call, are left out from there on. */
function keepDeltas() {
  let kept: Delta[] = [];
  let chars = 0;
  /** The answer, or the call, of which no more is told: a piece is worth nothing without those before it. */
  let leftOut = '';
  return {
    push(delta: Delta): void {
      const place = `${delta.turnId} ${delta.kind === 'delta' ? delta.step : delta.callId}`;
      if (place === leftOut) return;
      chars += sizeOf(delta);
      kept.push(delta);
      if (chars <= LIMITS.streamDeltaChars) return;
      leftOut = place;
      kept = [];
      chars = 0;
    },
    shift(): Delta | undefined {
      const delta = kept.shift();
      if (delta) chars -= sizeOf(delta);
      return delta;
    },
  };
}

function sizeOf(delta: Delta): number {
  return delta.kind === 'delta' ? delta.delta.text.length : (delta.message ?? '').length + 100;
}
