/** Rows that many ask for by their ids at the same time, read by few statements. */

interface Asked<V> {
  id: string;
  resolve: (row: V | undefined) => void;
  reject: (error: unknown) => void;
}

export interface ReadsTogether<V> {
  /** The row of an id as of now or later; undefined if there is none. What the reading throws, it throws. */
  read: (id: string) => Promise<V | undefined>;
  /** Nothing is asked for or under way. */
  isIdle: () => boolean;
}

/**
 * Reads at once what is asked for while nothing is under way; what is asked for meanwhile goes together as soon as one of
 * `lanes` is free. A read begins after it was asked for: whoever has written before sees it.
 */
export function readTogether<V extends { id: string }>(
  readAll: (ids: readonly string[]) => Promise<readonly V[]>,
  { lanes, most }: { lanes: number; most: number },
): ReadsTogether<V> {
  let waiting: Asked<V>[] = [];
  let free = lanes;

  function pump(): void {
    while (free > 0 && waiting.length > 0) {
      const batch = waiting.slice(0, most);
      waiting = waiting.slice(most);
      free -= 1;
      // Free before anybody is answered: who then looks finds nothing under way.
      const over = (tell: (asked: Asked<V>) => void) => {
        free += 1;
        batch.forEach(tell);
        pump();
      };
      void readAll([...new Set(batch.map(({ id }) => id))]).then(
        (rows) => {
          const found = new Map(rows.map((row) => [row.id, row]));
          over(({ id, resolve }) => resolve(found.get(id)));
        },
        (error: unknown) => over(({ reject }) => reject(error)),
      );
    }
  }
  return {
    read: (id) =>
      new Promise((resolve, reject) => {
        waiting.push({ id, resolve, reject });
        // What is asked for in the same turn of the event loop goes along.
        setImmediate(pump);
      }),
    isIdle: () => free === lanes && waiting.length === 0,
  };
}
