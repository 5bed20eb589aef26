/** Makes folders that take seconds to make, once for all processes. */
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Folders older than this were made for an older version, or by a process that died midway. */
const KEPT_MS = 24 * 3_600_000;

/**
 * Has `make` fill the folder if it is missing. It appears whole or not at all: of several processes that make it at
 * once, the first one's stays. Its parent directory is for such folders alone, and old ones are removed from it.
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
    // Fine if another process was first.
    if (!existsSync(folder)) throw error;
  }
}

/** Renamed first: a process that still copies one of them fails instead of finding a part of it. */
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
