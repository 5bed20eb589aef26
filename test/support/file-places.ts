/** Places for the contents of files: a folder, and a bucket of a real S3 server, which runs in this process. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import S3rver from 's3rver';

/** Where contents are kept, and what lies there. */
export interface Place {
  url: string;
  list: () => Promise<string[]>;
  close: () => Promise<void>;
}

/** By what they are called in the names of tests. */
export const PLACES: Record<string, () => Promise<Place>> = { 'a filesystem': onFilesystem, 'an S3 server': onS3 };

export async function onFilesystem(): Promise<Place> {
  const path = await mkdtemp(join(tmpdir(), 'drover-test-files-'));
  return {
    url: `file:${path}`,
    async list() {
      const found = await readdir(path, { recursive: true, withFileTypes: true });
      return found.filter((each) => each.isFile()).map((each) => `${each.parentPath.split('/').at(-1)}/${each.name}`);
    },
    close: () => rm(path, { recursive: true, force: true }),
  };
}

async function onS3(): Promise<Place> {
  const path = await mkdtemp(join(tmpdir(), 'drover-test-s3-'));
  const server = new S3rver({
    port: 0,
    address: '127.0.0.1',
    silent: true,
    directory: path,
    configureBuckets: [{ name: 'drover-test' }],
  });
  const { port } = await server.run();
  return {
    url: `s3://S3RVER:S3RVER@drover-test/some/prefix?endpoint=${encodeURIComponent(`http://127.0.0.1:${port}`)}`,
    async list() {
      const found = await readdir(join(path, 'drover-test'), { recursive: true, withFileTypes: true });
      const objects = found.filter((each) => each.isFile() && each.name.endsWith('._S3rver_object'));
      return objects.map((each) => `${each.parentPath.split('/').at(-1)}/${each.name.replace('._S3rver_object', '')}`);
    },
    async close() {
      await server.close();
      await rm(path, { recursive: true, force: true });
    },
  };
}
