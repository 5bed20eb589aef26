/** Reads rows that many ask for at the same time with few statements. */

interface Named {
  id: string;
}

interface Waiting<A, V> {
  asked: A;
  resolve: (row: V | undefined) => void;
  reject: (error: unknown) => void;
}

export interface ReadsTogether<A extends Named, V> {
  /** The row with this id, as of the call or later; undefined if there is none. Rejects as the read does. */
  read: (asked: A) => Promise<V | undefined>;
  /** Whether nothing is requested or being read. */
  isIdle: () => boolean;
}

/**
 * Reads with up to `lanes` statements at a time. Requests that arrive while all are busy share the next one, each id
 * once. A read starts after its request, so it sees what the caller has written before.
 */
export function readTogether<A extends Named, V extends Named>(
  readAll: (asked: readonly A[]) => Promise<readonly V[]>,
  { lanes, most }: { lanes: number; most: number },
): ReadsTogether<A, V> {
  let waiting: Waiting<A, V>[] = [];
  let free = lanes;

  function pump(): void {
    while (free > 0 && waiting.length > 0) {
      const batch = waiting.slice(0, most);
      waiting = waiting.slice(most);
      free -= 1;
      // Freed before callers are answered: one that checks then sees no read under way.
      const over = (tell: (one: Waiting<A, V>) => void) => {
        free += 1;
        batch.forEach(tell);
        pump();
      };
      const each = new Map(batch.map(({ asked }) => [asked.id, asked]));
      void readAll([...each.values()]).then(
        (rows) => {
          const found = new Map(rows.map((row) => [row.id, row]));
          over(({ asked, resolve }) => resolve(found.get(asked.id)));
        },
        (error: unknown) => over(({ reject }) => reject(error)),
      );
    }
  }
  return {
    read: (asked) =>
      new Promise((resolve, reject) => {
        waiting.push({ asked, resolve, reject });
        // Requests of the same turn of the event loop go together.
        setImmediate(pump);
      }),
    isIdle: () => free === lanes && waiting.length === 0,
  };
}
