/**
 * New databases of embedded mode start as a copy of a migrated, empty one, since `initdb` and migrations take ten times as
 * long as a copy. The image is created at the first start and kept beside the program. It is merely a head start: the copy is
 * migrated like any other database.
 */
import { createHash } from 'node:crypto';
import { cpSync, existsSync, renameSync, rmSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeOnce } from '../lib/make-once.ts';
import { syncFolder, syncNames } from '../lib/sync-folder.ts';
import { ofDataDir } from './data-dir-error.ts';
import { lockDataDir } from './data-dir-lock.ts';
import { syncPlaceOf } from './begin-cluster.ts';
import { clusterIn } from './embedded.ts';
import { migrate } from './migrate.ts';

const IMAGES = fileURLToPath(new URL('../.drover/images/', import.meta.url));
/** The sources that an image depends on. */
const SOURCES = ['./migrations/', './functions/'];
const PACKAGES = ['@electric-sql/pglite', '@electric-sql/pglite-pgvector'];

/**
 * Puts a migrated database into a data directory that has none; otherwise does nothing. Throws if no image can be made or
 * copied; the directory is then unchanged, and can still be opened.
 */
export async function beginDataDir(dataDir: string, images = IMAGES): Promise<void> {
  const cluster = clusterIn(dataDir);
  if (cluster === undefined || existsSync(cluster)) return;
  const image = await makeImage(images);
  await syncNames(images);
  const lock = await lockDataDir(dataDir);
  const half = `${cluster}.new`;
  try {
    if (existsSync(cluster)) return;
    // An incomplete copy, after an interruption.
    rmSync(half, { recursive: true, force: true });
    cpSync(image, half, { recursive: true });
    await syncFolder(half);
    renameSync(half, cluster);
    await syncPlaceOf(cluster);
  } catch (error) {
    throw ofDataDir(dataDir, error);
  } finally {
    rmSync(half, { recursive: true, force: true });
    lock.release();
  }
}

/** The image of a database, made unless it is there. Nobody may change it. */
export async function makeImage(images = IMAGES): Promise<string> {
  const image = join(images, await nameImage());
  await makeOnce(image, async (folder) => void (await migrate({ databaseUrl: undefined, dataDir: folder })));
  return clusterIn(image) ?? image;
}

async function nameImage(): Promise<string> {
  const hash = createHash('sha256');
  // Some TypeScript loaders provide no `import.meta.resolve`.
  const { resolve } = createRequire(import.meta.url);
  for (const name of PACKAGES) {
    hash.update(await readFile(join(dirname(resolve(name)), '../package.json')));
  }
  for (const source of SOURCES) {
    const folder = new URL(source, import.meta.url);
    for (const file of (await readdir(folder)).filter((each) => /\.(ts|js|sql)$/.test(each)).toSorted()) {
      hash.update(file).update(await readFile(new URL(file, folder)));
    }
  }
  return hash.digest('hex').slice(0, 16);
}
