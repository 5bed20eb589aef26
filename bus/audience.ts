/** Knows which processes watch which runs live, so that messages for watchers alone go only to those. */
import type { BusMessage, LiveSignal } from './bus.ts';
import { holdMessages } from './held-messages.ts';
import { ALL, type Addressed } from './payloads.ts';

/** How often a process repeats which runs it watches, and how long others believe it. */
const RENEW_MS = 15_000;
const BELIEVED_MS = 40_000;
/** Keeps a signal small enough for any transport. */
const RUNS_AT_ONCE = 100;

export interface Audience {
  /** Sends a message to all; one for watchers only to their processes, and holds it back while nobody watches the subject. */
  publish: (message: BusMessage) => void;
  /** Marks the subject as watched by this process until the returned function is called. */
  watch: (subject: string) => () => void;
  hear: (signal: LiveSignal) => void;
  /** Asks other processes what they watch, and tells them what this one does. */
  catchUp: () => void;
  close: () => void;
}

/**
 * Processes tell each other by signals which runs they watch: at once, every few seconds, and when one asks, as it does
 * at its start and after a gap. A stale belief costs a needless message; a missing one costs pieces of an answer that
 * comes whole in the end. A new watcher is told how far the run is, and gets the current answer from its beginning.
 */
export function createAudience(address: string, send: (addressed: Addressed) => void): Audience {
  const held = holdMessages();
  const here = new Map<string, number>();
  const elsewhere = rememberWatchers();
  const tellAll = (message: BusMessage | LiveSignal) => send({ message, to: [ALL] });
  const tell = (runs: readonly string[]) => {
    for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) {
      tellAll({ subject: '', kind: 'watched', runs: runs.slice(at, at + RUNS_AT_ONCE), by: address });
    }
  };
  /** The addresses of the processes where the subject is watched. */
  const watchersOf = (subject: string): readonly string[] => {
    const others = elsewhere.of(subject);
    if (others.includes(ALL)) return [ALL];
    return here.has(subject) ? [...others, address] : others;
  };
  const renewing = setInterval(() => {
    elsewhere.forgetOld();
    tell([...here.keys()]);
  }, RENEW_MS);
  renewing.unref();

  return {
    publish(message) {
      const { subject, kind } = message;
      if (kind === 'advanced') held.forget(subject);
      const isPiece = kind === 'delta' || kind === 'call_piece';
      const isForWatchers = isPiece || kind === 'progress' || (kind === 'advanced' && message.isWorking);
      if (!isForWatchers) return tellAll(message);
      const to = watchersOf(subject);
      if (to.length > 0) send({ message, to });
      else if (kind === 'advanced') held.advance(message);
      else if (isPiece) held.push(message);
    },
    watch(subject) {
      const watchers = here.get(subject) ?? 0;
      here.set(subject, watchers + 1);
      if (watchers === 0) tell([subject]);
      for (const message of held.take(subject)) send({ message, to: [address] });
      return () => {
        const left = (here.get(subject) ?? 0) - 1;
        if (left > 0) here.set(subject, left);
        else here.delete(subject);
      };
    },
    hear(heard) {
      if (heard.kind === 'who_watches') return tell([...here.keys()]);
      const { runs, by = ALL } = heard;
      if (by === address) return;
      for (const subject of runs) {
        elsewhere.add(subject, by);
        for (const message of held.take(subject)) send({ message, to: [by] });
      }
    },
    catchUp() {
      tellAll({ subject: '', kind: 'who_watches' });
      tell([...here.keys()]);
    },
    close: () => clearInterval(renewing),
  };
}

/** Other processes that watch a subject; each entry expires. */
function rememberWatchers() {
  const subjects = new Map<string, Map<string, number>>();
  const of = (subject: string): readonly string[] => {
    const nowMs = performance.now();
    return [...(subjects.get(subject) ?? [])].flatMap(([by, untilMs]) => (untilMs > nowMs ? [by] : []));
  };
  return {
    of,
    add(subject: string, by: string): void {
      const watchers = subjects.get(subject) ?? new Map<string, number>();
      subjects.set(subject, watchers.set(by, performance.now() + BELIEVED_MS));
    },
    forgetOld(): void {
      for (const subject of subjects.keys()) if (of(subject).length === 0) subjects.delete(subject);
    },
  };
}
