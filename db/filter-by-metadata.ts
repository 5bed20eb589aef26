/** Lists of what has certain entries of metadata, which triggers keep in `metadata_entries` (0192). */
import type { Knex } from 'knex';

/** So many entries lead to rows, each by a join; of the rows found, the others are looked at. */
const MOST_JOINED = 4;

interface HasMetadata {
  kind: 'agent' | 'run' | 'thread';
  /** Of the rows, as SQL. */
  id: string;
  column: string;
  metadata: Readonly<Record<string, string>> | undefined;
}

/** Leaves in a query the rows with all of these entries; without any, it stays as it is. */
export function filterByMetadata(query: Knex.QueryBuilder, { kind, id, column, metadata }: HasMetadata): void {
  if (!metadata) return;
  const isListed = `${id} in (select m.id from metadata_entries m where m.entry = metadata_entry('${kind}', ?, ?))`;
  for (const entry of Object.entries(metadata).slice(0, MOST_JOINED)) void query.whereRaw(isListed, entry);
  // Of a bare `@>` the planner believes that it leaves nearly nothing, and then reads all that is listed.
  void query.whereRaw(`coalesce(${column} @> ?::jsonb, false)`, [JSON.stringify(metadata)]);
}
