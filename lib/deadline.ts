import { setMaxListeners } from 'node:events';
import { startTimer } from './start-timer.ts';

/** A time limit is split into timers that run in turn: a process that stalls loses one of them, not all. */
const PARTS = 8;

/**
 * Rejects with `message` if `promise` has not settled after `timeoutMs`; a later outcome is ignored. A stall of the
 * process or the machine counts for an eighth at most, and input that arrived during it is processed first.
 */
export async function withDeadline<T>(promise: Promise<T>, timeoutMs: number, message: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    const wait = (parts: number) => {
      const end = () => (parts > 1 ? wait(parts - 1) : setImmediate(() => reject(new Error(message))));
      timer = setTimeout(end, timeoutMs / PARTS);
    };
    wait(PARTS);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}

/** Combines a time limit with a caller's signal, and tells afterwards which of them fired. */
export interface Deadline {
  /** Fires when the time is up (after a standstill up to a second later, see `startTimer`) or the caller's signal fires. */
  signal: AbortSignal;
  /** Why it fired, or undefined while there is time. */
  ended(): 'timeout' | 'aborted' | undefined;
  remainingMs(): number;
  /** Must be called when the work is over: frees the timer and the listener on the caller's signal. */
  clear(): void;
}

/**
 * Starts a time limit of `timeoutMs` that also ends with `parent`. Not `AbortSignal.any`: on Node 20 its results stay
 * alive as long as the signals they follow, and a worker's shutdown signal lives as long as the worker.
 */
export function startDeadline(timeoutMs: number, parent: AbortSignal): Deadline {
  const controller = new AbortController();
  const endsAt = performance.now() + timeoutMs;
  let ended: 'timeout' | 'aborted' | undefined;
  const end = (why: 'timeout' | 'aborted') => {
    ended ??= why;
    controller.abort(new Error(why === 'timeout' ? `timed out after ${timeoutMs} ms` : 'aborted by the caller'));
  };
  const onAbort = () => end('aborted');
  // Node warns of a leak from the eleventh listener on; many concurrent operations are no leak.
  setMaxListeners(0, parent);
  const timer = startTimer(timeoutMs, () => end('timeout'));
  if (parent.aborted) onAbort();
  else parent.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    ended: () => ended,
    remainingMs: () => Math.max(0, endsAt - performance.now()),
    clear: () => {
      timer.clear();
      parent.removeEventListener('abort', onAbort);
    },
  };
}

/** How long work may stand still. */
interface Standstill {
  quietMs: number;
  /** Ends the work, too. */
  parent: AbortSignal;
  /** How far the work has come, as a number that grows; without it, the work is one step. */
  progress?: () => number;
}

/**
 * Settles as `work` does, or rejects once that has not got on for `quietMs`, or with the parent's reason. Its signal fires
 * then, too. A stall of the process or the machine counts for an eighth at most.
 */
export async function whileItGetsOn<T>(
  { quietMs, parent, progress = () => 0 }: Standstill,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  parent.throwIfAborted();
  const ended = new AbortController();
  const { signal } = ended;
  const onAbort = () => ended.abort(parent.reason);
  setMaxListeners(0, parent);
  parent.addEventListener('abort', onAbort, { once: true });
  let came = progress();
  let quietParts = 0;
  const timer = setInterval(() => {
    const comes = progress();
    quietParts = comes === came ? quietParts + 1 : 0;
    came = comes;
    if (quietParts === PARTS) ended.abort(new DOMException(`stood still for ${quietMs} ms`, 'TimeoutError'));
  }, quietMs / PARTS);
  try {
    return await raceSignal(work(signal), signal);
  } finally {
    clearInterval(timer);
    parent.removeEventListener('abort', onAbort);
  }
}

/** Settles as `work` does, or rejects with the signal's reason when that fires first. `work` itself goes on. */
export async function raceSignal<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise, reject } = rejectable();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function rejectable(): { promise: Promise<never>; reject: (reason: unknown) => void } {
  let reject: (reason: unknown) => void = () => undefined;
  const promise = new Promise<never>((_resolve, refuse) => {
    reject = refuse;
  });
  return { promise, reject };
}
