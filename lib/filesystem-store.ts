import { open, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';
import { ContentGoneError, FileStoreError, type ByteRange, type FileStore } from './file-store.ts';

/** Contents as files in a folder, which all processes share. */
export function filesystemStore(root: string): FileStore {
  const disk = new Disk(new FSDriver({ location: root, visibility: 'private' }));
  return {
    async write(key, content, signal) {
      const path = join(root, key);
      await mkdir(dirname(path), { recursive: true, mode: 0o700 }).catch(failing('make a folder'));
      await disk.putStream(key, content, { signal }).catch(failing('write'));
      await sync(path);
      // The name, too.
      await sync(dirname(path));
    },
    read: (key, range) => read(join(root, key), range),
    delete: (key) => disk.delete(key).catch(failing('delete')),
    close: () => Promise.resolve(),
  };
}

async function sync(path: string): Promise<void> {
  const handle = await open(path).catch(failing('write'));
  try {
    await handle.sync().catch(failing('write'));
  } finally {
    await handle.close();
  }
}

async function read(path: string, range: ByteRange | undefined): Promise<Readable> {
  // Opened first: what is deleted from now on is still read to its end.
  const handle = await open(path).catch((error: unknown) => {
    const isGone = error instanceof Error && 'code' in error && error.code === 'ENOENT';
    throw isGone ? new ContentGoneError('read', error) : new FileStoreError('read', error);
  });
  return handle.createReadStream({ ...range, autoClose: true });
}

function failing(what: string): (error: unknown) => never {
  return (error) => {
    throw new FileStoreError(what, error);
  };
}
