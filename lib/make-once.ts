/** What takes seconds to make and is kept, for later processes and for those beside this one. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** What lies beside it for longer was made for something older, or by a process that has ended in the middle. */
const KEPT_MS = 24 * 3_600_000;

/**
 * Has `make` fill the folder where it is missing. It appears whole or not at all: several processes may make it at once, and
 * the first one's stays. The directory around it is for such folders alone, and old ones are removed from it.
 */
export async function makeOnce(folder: string, make: (folder: string) => Promise<void>): Promise<void> {
  if (existsSync(folder)) return;
  const around = dirname(folder);
  await mkdir(around, { recursive: true });
  await removeOld(around);
  const making = join(around, `making-${randomUUID()}`);
  try {
    await make(making);
    await rename(making, folder);
  } catch (error) {
    await rm(making, { recursive: true, force: true });
    // Another process was first.
    if (!existsSync(folder)) throw error;
  }
}

/** Renamed first: whoever still copies one of them fails, instead of finding a part of it. */
async function removeOld(around: string): Promise<void> {
  for (const name of await readdir(around)) {
    const old = join(around, name);
    const { mtimeMs } = await stat(old).catch(() => ({ mtimeMs: Infinity }));
    if (mtimeMs > Date.now() - KEPT_MS) continue;
    const removed = join(around, `${basename(old)}-removed`);
    await rename(old, removed).catch(() => undefined);
    await rm(removed, { recursive: true, force: true });
  }
}
