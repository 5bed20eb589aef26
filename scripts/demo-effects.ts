import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs';

interface Effect {
  key: string;
  title: string;
  text: string;
  published_at: string;
}

/**
 * Appends the effect as one line of JSON and flushes it to disk, unless the file holds its key already: then nothing
 * is written and the first one is returned.
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

/** Every effect so far, oldest first; none if there is no file. */
export function readEffects(file: string): Effect[] {
  if (!existsSync(file)) return [];
  const lines = readFileSync(file, 'utf8').split('\n');
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Effect);
}
