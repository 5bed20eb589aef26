import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';

interface Effect {
  key: string;
  title: string;
  text: string;
  published_at: string;
}

/**
 * Appends the effect as a line of JSON, and flushes it to disk. If the file has its key, writes nothing and returns the
 * earlier effect.
 */
export function recordEffect(file: string, effect: Effect): { effect: Effect; repeated: boolean } {
  const earlier = readEffects(file).find((known) => known.key === effect.key);
  if (earlier) return { effect: earlier, repeated: true };
  const descriptor = openSync(file, 'a');
  try {
    writeSync(descriptor, `${JSON.stringify(effect)}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  return { effect, repeated: false };
}

/** All effects so far, oldest first; empty without a file. */
export function readEffects(file: string): Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Effect);
}
