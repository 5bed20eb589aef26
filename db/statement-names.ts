/** Which statements a connection prepares: planning a read of partitioned tables takes several times as long as the read. */
import { LRUCache } from 'lru-cache';

/** The name of a statement that is to be prepared. */
export type StatementNames = (text: string) => string | undefined;

/** As often a text comes before it is prepared, and so many are at most: the numbers of Postgres' own JDBC driver. */
const USES_BEFORE = 5;
const MOST = 256;
const MOST_COUNTED = 2048;

/** The names of one pool's statements, the same on all of its connections. */
export function createStatementNames(): StatementNames {
  const names = new Map<string, string>();
  const uses = new LRUCache<string, number>({ max: MOST_COUNTED });
  return (text) => {
    const name = names.get(text);
    if (name !== undefined || names.size >= MOST || givesAllColumns(text)) return name;
    const count = (uses.get(text) ?? 0) + 1;
    uses.set(text, count);
    if (count <= USES_BEFORE) return undefined;
    uses.delete(text);
    names.set(text, `s${names.size + 1}`);
    return names.get(text);
  };
}

/** A migration that adds a column would make a prepared one fail once on each connection. */
function givesAllColumns(text: string): boolean {
  return /(?:select|returning|,)\s+(?:\w+\.)?\*/i.test(text);
}
