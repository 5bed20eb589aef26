/** Which runs somebody watches live, in whatever process: what only watchers want to know is sent for those alone. */
import type { BusMessage, LiveSignal } from './bus.ts';
import { holdMessages } from './held-messages.ts';

/** How often a process says again which runs it watches, and for how long that is believed. */
const RENEW_MS = 15_000;
const BELIEVED_MS = 40_000;
/** So that a signal fits what any transport carries at once. */
const RUNS_AT_ONCE = 100;

export interface Audience {
  /** Sends a message, or holds it back where it is for watchers and nobody watches the run. */
  publish: (message: BusMessage) => void;
  /** The run is watched by this process from now on, until the function that it gives is called. */
  watch: (runId: string) => () => void;
  hear: (signal: LiveSignal) => void;
  /** Asks the others what they watch, and tells them what this process does. */
  catchUp: () => void;
  close: () => void;
}

/**
 * Processes tell each other by signals which runs they watch: at once, every few seconds, and whenever one asks, as it does
 * at its start and after a gap. What is believed too long costs a message, what is not known yet costs pieces of an answer
 * that comes whole in the end. Who comes later is told how far the run is, and gets the answer that is being written from its beginning.
 */
export function createAudience(send: (message: BusMessage | LiveSignal) => void): Audience {
  const held = holdMessages();
  const here = new Map<string, number>();
  const elsewhereUntilMs = new Map<string, number>();
  const tell = (runs: readonly string[]) => {
    for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) {
      send({ runId: '', kind: 'watched', runs: runs.slice(at, at + RUNS_AT_ONCE) });
    }
  };
  const isWatched = (runId: string) => here.has(runId) || (elsewhereUntilMs.get(runId) ?? 0) > performance.now();
  const renewing = setInterval(() => {
    const nowMs = performance.now();
    for (const [runId, untilMs] of elsewhereUntilMs) if (untilMs < nowMs) elsewhereUntilMs.delete(runId);
    tell([...here.keys()]);
  }, RENEW_MS);
  renewing.unref();

  return {
    publish(message) {
      const { runId, kind } = message;
      if (kind === 'advanced') held.forget(runId);
      const isPiece = kind === 'delta' || kind === 'call_piece';
      const isForWatchers = isPiece || kind === 'progress' || (kind === 'advanced' && message.isWorking);
      if (!isForWatchers || isWatched(runId)) send(message);
      else if (kind === 'advanced') held.advance(message);
      else if (isPiece) held.push(message);
    },
    watch(runId) {
      const watchers = here.get(runId) ?? 0;
      here.set(runId, watchers + 1);
      if (watchers === 0) tell([runId]);
      held.take(runId).forEach(send);
      return () => {
        const left = (here.get(runId) ?? 0) - 1;
        if (left > 0) here.set(runId, left);
        else here.delete(runId);
      };
    },
    hear(heard) {
      if (heard.kind === 'who_watches') return tell([...here.keys()]);
      const untilMs = performance.now() + BELIEVED_MS;
      for (const runId of heard.runs) {
        elsewhereUntilMs.set(runId, untilMs);
        held.take(runId).forEach(send);
      }
    },
    catchUp() {
      send({ runId: '', kind: 'who_watches' });
      tell([...here.keys()]);
    },
    close: () => clearInterval(renewing),
  };
}
