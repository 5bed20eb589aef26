import { readFileSync } from 'node:fs';

/** What macOS allows where nothing else is set. Windows allows more. */
const BESIDE_LINUX = 10_240;

/** How many files and connections this process may have open at once; only Linux says so. */
export function mostOpenFiles(): number {
  try {
    const [, most] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return Number(most ?? BESIDE_LINUX);
  } catch {
    return BESIDE_LINUX;
  }
}
