/** Opens the store for contents of files. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../../config.ts';
import { withDeadline } from '../../lib/deadline.ts';
import { ConfigError, quote } from '../../lib/environment.ts';
import type { FileStore } from '../../lib/file-store.ts';
import { probeFolder } from '../../lib/filesystem-store.ts';
import { openFileStore } from '../../lib/open-file-store.ts';
import type { Closers } from './closers.ts';

/** A network folder that is away may not answer at all. */
const PROBE_MS = 5000;
/** Errors that waiting does not mend. */
const LASTING = ['EACCES', 'EINVAL', 'ELOOP', 'ENAMETOOLONG', 'ENOENT', 'ENOTDIR', 'EPERM', 'EROFS'];

/**
 * Opens the file store, if any. If nothing is kept, files are temporary, too.
 * @throws ConfigError for a folder that can never be written. A bucket, or a folder that is away or full, fails later.
 */
export async function openStore(
  config: Pick<Config, 'fileStore' | 'mode'>,
  { closers, log }: { closers: Closers; log: Logger },
): Promise<FileStore | undefined> {
  let address = config.fileStore;
  if (address?.kind === 'file') await expectWritable(address.path, log);
  if (!address && config.mode === 'embedded') {
    const path = await mkdtemp(join(tmpdir(), 'drover-files-'));
    closers.add('files kept in memory', () => rm(path, { recursive: true, force: true }));
    address = { kind: 'file', path };
  }
  if (!address) return undefined;
  const store = await openFileStore(address);
  closers.add('files', () => store.close());
  return store;
}

async function expectWritable(path: string, log: Logger): Promise<void> {
  try {
    await withDeadline(probeFolder(path), PROBE_MS, `No answer from the file store within ${PROBE_MS} ms`);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (LASTING.includes(code)) {
      const problem = `leads to ${quote(path)}, which cannot be written (${code})`;
      throw new ConfigError('DROVER_FILES_URL', problem, 'a folder that this process may make, and write in');
    }
    log.warn({ err: error }, 'the file store takes nothing for now');
  }
}
