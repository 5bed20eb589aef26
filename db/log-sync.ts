import { fdatasync, fdatasyncSync } from 'node:fs';
import { promisify } from 'node:util';

export interface LogSync {
  /** This open file of the log is to be on the disk before anyone is told so. */
  defer: (file: number) => void;
  /** Whether anything deferred may not be on the disk yet. */
  isBehind: () => boolean;
  /** Resolves once everything deferred so far is on the disk. */
  settle: () => Promise<void>;
  /** The same, before it returns. */
  settleNow: () => void;
  /** Calls `close` for the file once no sync needs it. */
  release: (file: number, close: () => void) => void;
}

/**
 * A sync is shared: whoever comes while one is under way waits for the next one, which is for all who have come by then. It
 * is one of the file that Postgres has open, so that it cannot fail for a lack of descriptors, which says nothing of the disk.
 */
export function createLogSync(onFailed: (error: unknown) => void): LogSync {
  let deferred = new Set<number>();
  let underWay = new Set<number>();
  // Those of a sync that has not returned: `settleNow` does not wait for it. A number that is closed may soon be another file's.
  let inUse = new Set<number>();
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
  const closing = createClosing((file) => deferred.has(file) || inUse.has(file));

  const sync = async () => {
    next = undefined;
    if (failure) throw failure.error;
    inUse = underWay = deferred;
    deferred = new Set();
    try {
      await Promise.all([...inUse].map((file) => promisify(fdatasync)(file)));
      inUse = underWay = new Set();
      closing.go();
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
      for (const file of new Set([...underWay, ...deferred])) fdatasyncSync(file);
      underWay = new Set();
      deferred = new Set();
      closing.go();
    } catch (error) {
      fail(error);
    }
  };
  return {
    defer: (file) => void deferred.add(file),
    isBehind: () => deferred.size + underWay.size > 0,
    settle,
    settleNow,
    release: closing.add,
  };
}

/** Closes each file as soon as it is not needed. */
function createClosing(isNeeded: (file: number) => boolean) {
  const waiting = new Map<number, () => void>();
  return {
    add: (file: number, close: () => void) => {
      if (isNeeded(file)) waiting.set(file, close);
      else close();
    },
    go: () => {
      for (const [file, close] of waiting) {
        if (isNeeded(file)) continue;
        waiting.delete(file);
        close();
      }
    },
  };
}
