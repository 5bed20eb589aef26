/** Makes one read of many that want the same: a run that many watch is read once for all of them. */

/** Reads what `key` stands for. */
export type CoalescedReads<T> = (key: string, read: () => Promise<T>) => Promise<T>;

/**
 * Whoever asks while a read of the same key is under way shares the one after it: each gets what was read after it
 * asked, never before.
 */
export function coalesceReads<T>(): CoalescedReads<T> {
  const reads = new Map<string, { now: Promise<T>; next?: Promise<T> }>();

  const begin = (key: string, read: () => Promise<T>): Promise<T> => {
    const now = read();
    const own: { now: Promise<T>; next?: Promise<T> } = { now };
    reads.set(key, own);
    const forget = () => {
      if (!own.next) reads.delete(key);
    };
    now.then(forget, forget);
    return now;
  };

  return (key, read) => {
    const under = reads.get(key);
    if (!under) return begin(key, read);
    const again = () => begin(key, read);
    under.next ??= under.now.then(again, again);
    return under.next;
  };
}
