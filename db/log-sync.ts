import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs';
import { promisify } from 'node:util';

export interface LogSync {
  /** This file of the log is to be on the disk before anyone is told so. */
  defer: (path: string) => void;
  /** Whether anything deferred may not be on the disk yet. */
  isBehind: () => boolean;
  /** Resolves once everything deferred so far is on the disk. */
  settle: () => Promise<void>;
  /** The same, before it returns. */
  settleNow: () => void;
}

/** A sync is shared: whoever comes while one is under way waits for the next one, which is for all who have come by then. */
export function createLogSync(onFailed: (error: unknown) => void): LogSync {
  let deferred = new Set<string>();
  let underWay = new Set<string>();
  let current = Promise.resolve();
  let next: Promise<void> | undefined;
  // After a failure the kernel may count what is lost as written, so that a second attempt would succeed.
  let failure: { error: unknown } | undefined;
  const fail = (error: unknown): never => {
    if (!failure) {
      failure = { error };
      onFailed(error);
    }
    throw failure.error;
  };

  const sync = async () => {
    next = undefined;
    if (failure) throw failure.error;
    underWay = deferred;
    deferred = new Set();
    try {
      await Promise.all([...underWay].map(syncFile));
      underWay = new Set();
    } catch (error) {
      fail(error);
    }
  };
  const settle = async () => {
    if (deferred.size === 0) return current;
    if (!next) {
      next = current.then(sync, sync);
      current = next;
    }
    return next;
  };
  const settleNow = () => {
    if (failure) throw failure.error;
    try {
      for (const path of new Set([...underWay, ...deferred])) syncFileNow(path);
      underWay = new Set();
      deferred = new Set();
    } catch (error) {
      fail(error);
    }
  };
  return {
    defer: (path) => void deferred.add(path),
    isBehind: () => deferred.size + underWay.size > 0,
    settle,
    settleNow,
  };
}

async function syncFile(path: string): Promise<void> {
  const file = openIfThere(path);
  if (file === undefined) return;
  try {
    await promisify(fdatasync)(file);
  } finally {
    closeSync(file);
  }
}

function syncFileNow(path: string): void {
  const file = openIfThere(path);
  if (file === undefined) return;
  try {
    fdatasyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** One that is gone has another name by now, which is deferred too, or no start needs it any more. */
function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
