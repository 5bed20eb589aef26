/** Decides which statements are prepared: planning a read of partitioned tables takes several times as long as the read. */
import { LRUCache } from 'lru-cache';

/** The name under which to prepare a statement; undefined: do not prepare it. */
export type StatementNames = (text: string) => string | undefined;

/** Uses before a statement is prepared, and maximum number of prepared ones: as in Postgres' own JDBC driver. */
const USES_BEFORE = 5;
const MOST = 256;
const MOST_COUNTED = 2048;

/** Names for a pool's statements, the same on all its connections. */
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

/** Statements with `*` are excluded: after a migration that adds a column, a prepared one would fail once on each connection. */
function givesAllColumns(text: string): boolean {
  return /(?:select|returning|,)\s+(?:\w+\.)?\*/i.test(text);
}
