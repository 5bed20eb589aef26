import { setTimeout as delay } from 'node:timers/promises';

const OFTEN_MS = 10;
const SELDOM_MS = 100;

/**
 * Waits for a condition that another process brings about; fails after `timeoutMs` with what was waited for. What asks a
 * service or a database is asked more seldom the longer it takes, a tenth of that late at most: asking all the time would
 * take the core on which it is brought about.
 */
export async function waitUntil(
  what: string,
  holds: () => boolean | Promise<boolean>,
  timeoutMs = 120_000,
): Promise<void> {
  const beganMs = Date.now();
  for (;;) {
    const held = holds();
    if (await held) return;
    const waitedMs = Date.now() - beganMs;
    if (waitedMs > timeoutMs) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    const isCheap = typeof held === 'boolean';
    await delay(isCheap ? OFTEN_MS : Math.min(SELDOM_MS, Math.max(OFTEN_MS, waitedMs / 10)));
  }
}

/** Whether a process exists (or is a zombie that nobody has waited for). */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
