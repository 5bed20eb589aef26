import { setTimeout as delay } from 'node:timers/promises';

/** Waits for a condition that another process brings about; fails after `timeoutMs` with what was waited for. */
export async function waitUntil(
  what: string,
  holds: () => boolean | Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const endsAt = Date.now() + timeoutMs;
  while (!(await holds())) {
    if (Date.now() > endsAt) throw new Error(`waited ${timeoutMs} ms in vain: ${what}`);
    await delay(10);
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
