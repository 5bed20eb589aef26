/** Knows which processes watch which runs live, so that messages for watchers alone go only to those. */
import type { BusMessage, LiveSignal } from './bus.ts';
import { holdMessages, type Piece } from './held-messages.ts';
import { ALL, type Addressed } from './payloads.ts';

/** How often a process repeats which runs it watches, and how long others believe it. */
const RENEW_MS = 15_000;
const BELIEVED_MS = 40_000;
/** Keeps a signal small enough for any transport. */
const RUNS_AT_ONCE = 100;

export interface Audience {
  /** Sends a message to all; one for watchers only to their processes. What there is of an answer is held for later ones. */
  publish: (message: BusMessage) => void;
  /**
   * Marks the subject as watched by this process until `leave` is called. `earlier`: the pieces of the present answer that
   * watchers here have had.
   */
  watch: (subject: string) => { earlier: readonly Piece[]; leave: () => void };
  /** Notes a message that has come, and returns what listeners here are to hear of it: nothing they have had. */
  receive: (message: BusMessage) => BusMessage | undefined;
  hear: (signal: LiveSignal) => void;
  /** Asks other processes what they watch, and tells them what this one does. */
  catchUp: () => void;
  close: () => void;
}

/**
 * Processes tell each other by signals which runs they watch: at once, every few seconds, and when one asks, as it does
 * at its start and after a gap. A stale belief costs a needless message; a missing one costs pieces of an answer that
 * comes whole in the end. A new watcher is told how far the run is, and gets the current answer from its beginning: from the
 * process where it is written if it is the first of its own, else from what the others there have had.
 */
export function createAudience(address: string, send: (addressed: Addressed) => void): Audience {
  const said = holdSaid();
  const heard = holdHeard();
  const here = countWatchers();
  const elsewhere = rememberWatchers();
  const tellAll = (message: BusMessage | LiveSignal) => send({ message, to: [ALL] });
  const tell = (runs: readonly string[], more?: { isNew: true }) => {
    for (const signal of watchedSignals(runs)) tellAll({ ...signal, by: address, ...more });
  };
  const sayAgain = (subject: string, to: string) => {
    for (const message of said.again(subject)) send({ message, to: [to] });
  };
  /** The addresses of the processes where the subject is watched. */
  const watchersOf = (subject: string): readonly string[] => {
    const others = elsewhere.of(subject);
    if (others.includes(ALL)) return [ALL];
    return here.has(subject) ? [...others, address] : others;
  };
  const renewing = setInterval(() => {
    elsewhere.forgetOld();
    tell(here.subjects());
  }, RENEW_MS);
  renewing.unref();

  return {
    publish(message) {
      const { subject, kind } = message;
      const isPiece = kind === 'delta' || kind === 'call_piece';
      const isWorking = kind === 'advanced' && message.isWorking === true;
      said.note(message);
      if (!isPiece && !isWorking && kind !== 'progress') return tellAll(message);
      const to = watchersOf(subject);
      if (to.length > 0) send({ message, to });
    },
    watch(subject) {
      if (here.enter(subject)) {
        tell([subject], { isNew: true });
        sayAgain(subject, address);
      }
      const leave = () => {
        if (here.leave(subject)) heard.forget(subject);
      };
      return { earlier: heard.piecesOf(subject), leave };
    },
    receive: (message) => heard.take(message, here.has(message.subject)),
    hear(signal) {
      if (signal.kind === 'who_watches') return tell(here.subjects());
      const { runs, by = ALL, isNew = false } = signal;
      if (by === address) return;
      for (const subject of runs) {
        const isKnown = elsewhere.of(subject).includes(by);
        elsewhere.add(subject, by);
        if (isNew || !isKnown) sayAgain(subject, by);
      }
    },
    catchUp() {
      tellAll({ subject: '', kind: 'who_watches' });
      tell(here.subjects());
    },
    close: () => clearInterval(renewing),
  };
}

function watchedSignals(runs: readonly string[]) {
  const signals = [];
  for (let at = 0; at < runs.length; at += RUNS_AT_ONCE) {
    signals.push({ subject: '', kind: 'watched', runs: runs.slice(at, at + RUNS_AT_ONCE) } as const);
  }
  return signals;
}

/** The watchers of this process. */
function countWatchers() {
  const counts = new Map<string, number>();
  return {
    has: (subject: string) => counts.has(subject),
    subjects: () => [...counts.keys()],
    /** Returns whether it is the subject's first. */
    enter(subject: string): boolean {
      const count = counts.get(subject) ?? 0;
      counts.set(subject, count + 1);
      return count === 0;
    },
    /** Returns whether it was the subject's last. */
    leave(subject: string): boolean {
      const left = (counts.get(subject) ?? 0) - 1;
      if (left > 0) counts.set(subject, left);
      else counts.delete(subject);
      return left <= 0;
    },
  };
}

/** What this process has said of present answers. */
function holdSaid() {
  const held = holdMessages();
  return {
    note(message: BusMessage): void {
      const { subject, kind } = message;
      if (kind === 'delta' || kind === 'call_piece') held.push(message);
      else if (kind === 'advanced' && message.isWorking) held.advance(message);
      else if (kind === 'advanced') held.forget(subject);
    },
    again: (subject: string): BusMessage[] =>
      held
        .of(subject)
        .map((message) =>
          message.kind === 'delta' || message.kind === 'call_piece' ? { ...message, isAgain: true } : message,
        ),
  };
}

/** What watchers here have had of present answers, so that they have no piece twice and later ones have all. */
function holdHeard() {
  const held = holdMessages();
  return {
    /** Returns what listeners are to hear of a message that has come. */
    take(message: BusMessage, isWatched: boolean): BusMessage | undefined {
      if (message.kind === 'advanced' && isWatched) held.advance(message);
      if (message.kind !== 'delta' && message.kind !== 'call_piece') return message;
      const { isAgain, ...piece } = message;
      if (!isWatched) return piece;
      if (isAgain && !held.isNews(piece)) return undefined;
      held.push(piece);
      return piece;
    },
    piecesOf: held.piecesOf,
    forget: held.forget,
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
