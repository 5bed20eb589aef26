import { readFileSync } from 'node:fs';

/** How many files and connections this process may have open at once; undefined where its system does not say, as beside Linux. */
export function mostOpenFiles(): number | undefined {
  try {
    const [, most] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return most === undefined ? undefined : Number(most);
  } catch {
    return undefined;
  }
}
