import { LONGEST_TIMER_MS, startTimer } from '../lib/start-timer.ts';

/** `timeoutMs` for a whole call, `idleMs` for the longest silence in it. */
export interface ProviderOptions {
  apiKey: string;
  baseUrl?: string | undefined;
  timeoutMs?: number | undefined;
  idleMs?: number | undefined;
}

/** Why a guarded call was cut off. */
export type CutOff = 'aborted' | 'timeout';

export interface CallGuard {
  /** Fires on the caller's abort, after `timeoutMs` in all, and after `idleMs` without a sign of life. */
  signal: AbortSignal;
  /** Restarts the idle time. */
  touch: () => void;
  cutOff: () => CutOff | undefined;
  /** Abandons the answer: frees any connection that still listens to the signal. */
  drop: () => void;
  /** Frees the timers. */
  close: () => void;
}

/** The abort reason after a call. Made once, since `abort` without one captures a stack trace. */
const OVER = new DOMException('The call is over.', 'AbortError');

/**
 * Settings of an SDK whose calls are guarded. Its own limit would end the call after a standstill; it tells the server of it,
 * and should tell the guard's.
 */
export function guardedBy(timeoutMs: number): { timeout: number; defaultHeaders: Record<string, string> } {
  const seconds = String(Math.trunc(timeoutMs / 1000));
  return { timeout: LONGEST_TIMER_MS, defaultHeaders: { 'x-stainless-timeout': seconds } };
}

/**
 * Combines everything that may end a model call into one signal. The SDKs' own timeout covers only the headers: a
 * stream that falls silent would hang for ever.
 */
export function guardCall(signal: AbortSignal, limits: { timeoutMs: number; idleMs: number }): CallGuard {
  const controller = new AbortController();
  let reason: CutOff | undefined;
  const end = (why: CutOff): void => {
    reason ??= why;
    controller.abort();
  };
  const onAbort = (): void => end('aborted');
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  const total = startTimer(limits.timeoutMs, () => end('timeout'));
  const idle = startTimer(limits.idleMs, () => end('timeout'));
  return {
    signal: controller.signal,
    touch: idle.restart,
    cutOff: () => reason,
    drop: () => controller.abort(OVER),
    close: () => {
      signal.removeEventListener('abort', onAbort);
      total.clear();
      idle.clear();
    },
  };
}
