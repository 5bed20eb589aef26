/** Puts folders on the disk, so that a power cut leaves them. */
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Node's own number of threads for files. */
const AT_ONCE = 4;
/** Where a folder is nothing to be opened or synced, by its file system or for this user. */
const NOT_FOR_FOLDERS = new Set(['EACCES', 'EBADF', 'EINVAL', 'EISDIR', 'EPERM']);

/** Syncs the folder with everything in it. Nobody may remove any of it meanwhile. */
export async function syncFolder(folder: string): Promise<void> {
  const files: string[] = [];
  const folders = [folder];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    (entry.isDirectory() ? folders : files).push(join(entry.parentPath, entry.name));
  }
  const syncNext = async () => {
    for (let file = files.pop(); file !== undefined; file = files.pop()) await syncPath(file);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, syncNext));
  for (const each of folders) await syncNames(each);
}

/** Syncs which names a folder has, as far as its system can. */
export async function syncNames(folder: string): Promise<void> {
  try {
    await syncPath(folder);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && NOT_FOR_FOLDERS.has(String(error.code)))) throw error;
  }
}

/** Syncs a file, or which names a folder has. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
