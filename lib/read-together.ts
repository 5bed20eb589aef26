/** Rows that many ask for at the same time, read by few statements. */

interface Named {
  id: string;
}

interface Waiting<A, V> {
  asked: A;
  resolve: (row: V | undefined) => void;
  reject: (error: unknown) => void;
}

export interface ReadsTogether<A extends Named, V> {
  /** The row with the id of what is asked for, as of now or later; undefined if there is none. What the reading throws, it throws. */
  read: (asked: A) => Promise<V | undefined>;
  /** Nothing is asked for or under way. */
  isIdle: () => boolean;
}

/**
 * Reads at once what is asked for while nothing is under way; what is asked for meanwhile goes together as soon as one of
 * `lanes` is free, once for each id. A read begins after it was asked for: whoever has written before sees it.
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
      // Free before anybody is answered: who then looks finds nothing under way.
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
        // What is asked for in the same turn of the event loop goes along.
        setImmediate(pump);
      }),
    isIdle: () => free === lanes && waiting.length === 0,
  };
}
