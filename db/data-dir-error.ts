/** Errors of a data directory that the embedded database cannot be kept in. */
import { statfsSync } from 'node:fs';
import { isDiskFull } from './database-errors.ts';

/** The message names the variable, the directory, and how much is free there. */
export class DataDirError extends Error {
  readonly dataDir: string;

  constructor(dataDir: string, problem: string, cause: unknown) {
    const place = `DROVER_DATA_DIR is ${dataDir}, in which the database cannot work: ${problem}${freeIn(dataDir)}.`;
    super(place, { cause });
    this.name = 'DataDirError';
    this.dataDir = dataDir;
  }
}

/** An error as `DataDirError`, if it does not say by itself what the directory lacks; otherwise the error. */
export function ofDataDir(dataDir: string, error: unknown): unknown {
  if (isFull(error)) return new DataDirError(dataDir, NO_SPACE, error);
  if (!(error instanceof Error)) return new DataDirError(dataDir, 'its files cannot be read or written', error);
  // PGlite's only words for a database that does not start.
  if (error.message.startsWith('PGlite failed to initialize')) return new DataDirError(dataDir, error.message, error);
  if (error.message.startsWith('Aborted('))
    return new DataDirError(dataDir, freeMiB(dataDir) === 0 ? NO_SPACE : 'its files are damaged', error);
  if ('code' in error && (error.code === 'EROFS' || error.code === 'EACCES'))
    return new DataDirError(dataDir, `nothing can be written there (${error.code})`, error);
  return error;
}

const NO_SPACE = 'no space is left';

/** ENOSPC of Node, and in PGlite, which throws an object of its file system. */
function isFull(error: unknown): boolean {
  if (isDiskFull(error)) return true;
  if (error instanceof Error) return 'code' in error && error.code === 'ENOSPC';
  return typeof error === 'object' && error !== null && 'errno' in error && error.errno === WASI_ENOSPC;
}

const WASI_ENOSPC = 51;

function freeIn(dataDir: string): string {
  const free = freeMiB(dataDir);
  return free === undefined ? '' : ` (${free} MiB are free there)`;
}

/** Undefined if the system does not say. */
function freeMiB(dataDir: string): number | undefined {
  try {
    const { bavail, bsize } = statfsSync(dataDir);
    return Math.floor((bavail * bsize) / 1_048_576);
  } catch {
    return undefined;
  }
}
