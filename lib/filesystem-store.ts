import { createWriteStream } from 'node:fs';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';
import { ContentGoneError, FileStoreError, type ByteRange, type FileStore } from './file-store.ts';
import { syncPath } from './sync-folder.ts';

/** Stores contents as files in a folder that all processes share. */
export function filesystemStore(root: string): FileStore {
  const disk = new Disk(new FSDriver({ location: root, visibility: 'private' }));
  return {
    async write(key, content, signal) {
      const path = join(root, key);
      await makeFolder(dirname(path)).catch(failing('make a folder'));
      // Not the disk's own: where it cannot write, it tells of the content that it then breaks off.
      await pipeline(content, createWriteStream(path), { signal }).catch(failing('write'));
      await syncPath(path).catch(failing('write'));
      // Syncs the folder, too, so that the name survives.
      await syncPath(dirname(path)).catch(failing('write'));
    },
    read: (key, range) => read(join(root, key), range),
    has: (key) => exists(join(root, key)).catch(failing('look')),
    delete: (key) => disk.delete(key).catch(failing('delete')),
    close: () => Promise.resolve(),
  };
}

/**
 * Creates the folder if needed, then writes and deletes a probe file. The fixed name means a leftover from a killed
 * process is removed, too. Throws the system's error.
 */
export async function probeFolder(root: string): Promise<void> {
  await makeFolder(root);
  const path = join(root, '.probe');
  const handle = await open(path, 'w', 0o600);
  await handle.close();
  await rm(path, { force: true });
}

/**
 * Not `recursive`: in a folder that takes no others and reports something as missing, such as `/proc`, Node would retry
 * for ever.
 */
async function makeFolder(path: string): Promise<void> {
  if (await exists(path)) return;
  const parent = dirname(path);
  if (parent !== path) await makeFolder(parent);
  await mkdir(path, { mode: 0o700 }).catch((error: unknown) => {
    // Another process was faster.
    if (codeOf(error) !== 'EEXIST') throw error;
  });
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

async function read(path: string, range: ByteRange | undefined): Promise<Readable> {
  // Opened first: a file that is deleted later can still be read to its end.
  const handle = await open(path).catch((error: unknown) => {
    throw codeOf(error) === 'ENOENT' ? new ContentGoneError('read', error) : new FileStoreError('read', error);
  });
  return handle.createReadStream({ ...range, autoClose: true });
}

function failing(what: string): (error: unknown) => never {
  return (error) => {
    throw new FileStoreError(what, error);
  };
}
