/** What takes seconds to make and stays the same until its sources change: kept for later runs, and for processes beside. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { makeOnce } from '../../lib/make-once.ts';

const FOLDER = resolve('.drover', 'test-made');

const made = new Map<string, Promise<string>>();

/** The folder that `make` has filled for this state of the sources, which are files and folders of the repository. */
export function madeOnce(
  kind: string,
  sources: readonly string[],
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = made.get(kind) ?? findOrMake(kind, hashOf(sources), make);
  made.set(kind, folder);
  return folder;
}

/** Of every TypeScript and SQL file in these files and folders, and of the versions of all packages. */
export function hashOf(sources: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of ['package-lock.json', ...sources.flatMap(filesIn).toSorted()]) {
    hash.update(file).update(readFileSync(file));
  }
  return hash.digest('hex').slice(0, 16);
}

function filesIn(source: string): string[] {
  if (/\.(ts|sql|json)$/.test(source)) return [source];
  return readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(ts|sql)$/.test(file))
    .map((file) => join(source, file));
}

async function findOrMake(kind: string, hash: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(FOLDER, `${kind}-${hash}`);
  await makeOnce(folder, make);
  return folder;
}
