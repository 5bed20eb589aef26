/** `timeoutMs` for a whole call, `idleMs` for the longest silence in it. */
export interface ProviderOptions {
  apiKey: string;
  baseUrl?: string | undefined;
  timeoutMs?: number | undefined;
  idleMs?: number | undefined;
}

/** Anthropic pings while a model thinks; three minutes without anything are a dead connection. */
export const DEFAULT_IDLE_MS = 180_000;

/** Why a guarded call was cut off. */
export type CutOff = 'aborted' | 'timeout';

export interface CallGuard {
  /** Fires on the caller's abort, after `timeoutMs` in all, and after `idleMs` without a sign of life. */
  signal: AbortSignal;
  /** A sign of life: the idle time starts again. */
  touch: () => void;
  cutOff: () => CutOff | undefined;
  /** Nobody reads the answer to its end: frees whatever connection still listens to the signal. */
  drop: () => void;
  /** Frees the timers. */
  close: () => void;
}

/** Why nobody reads any more. Made once: a reason that `abort` makes itself costs the trace of its stack. */
const OVER = new DOMException('The call is over.', 'AbortError');

/**
 * One signal for everything that may end a model call. The SDKs' own timeout ends with the response's headers, so that
 * a stream that falls silent would hang for ever.
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
  const total = setTimeout(() => end('timeout'), limits.timeoutMs);
  const idle = setTimeout(() => end('timeout'), limits.idleMs);
  return {
    signal: controller.signal,
    touch: () => void idle.refresh(),
    cutOff: () => reason,
    drop: () => controller.abort(OVER),
    close: () => {
      signal.removeEventListener('abort', onAbort);
      clearTimeout(total);
      clearTimeout(idle);
    },
  };
}
