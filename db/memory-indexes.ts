/** Indexes of memories that migration 0191 leaves to maintenance on tables in use, and the column of users that one needs. */
import type { Database, Tx } from './database.ts';
import { makeIndexBesideWriters } from './make-index.ts';
import { shareMemoryOf } from './memory-lock.ts';

/** As the migration creates them on empty tables. */
const INDEXES = {
  memory_entries_of_user: 'memory_entries (agent_id, user_id, status, importance desc, id)',
  memory_entries_refused: `memory_entries (agent_id, embedding_model)
    where embedding is null and embedding_model is not null and status in ('active', 'disputed')`,
  memory_fragments_refused: `memory_fragments (space_id, embedding_model)
    where embedding is null and embedding_model is not null`,
} as const;
type MemoryIndex = keyof typeof INDEXES;

const OF_USER = 'memory_entries_of_user';

/** Those that do not exist or are not valid; the one of users comes last. */
export async function listMissingIndexes(tx: Tx): Promise<MemoryIndex[]> {
  const rows = await tx.query<{ name: MemoryIndex }>(
    `select name from unnest($1::text[]) name where not exists (
        select from pg_index where indexrelid = to_regclass(name) and indisvalid) order by name = $2`,
    [Object.keys(INDEXES), OF_USER],
  );
  return rows.map(({ name }) => name);
}

/**
 * An entry's user, as an expression: the column, once all entries have it and an index finds them by it; else what their metadata
 * says, for which all of an agent's entries are read.
 */
export async function userOf(tx: Tx): Promise<string> {
  const [index] = await tx.query<{ valid: boolean }>(
    'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
    [OF_USER],
  );
  return index?.valid ? 'user_id' : `metadata->>'user_id'`;
}

/** Whether entries have to get their users first. */
export const needsUsers = (index: MemoryIndex): boolean => index === OF_USER;

/** Creates it; false if it exists, or another process is creating it. */
export async function makeMemoryIndex(db: Database, name: MemoryIndex): Promise<boolean> {
  const index = { lock: `drover:memory-indexes:${name}`, name };
  if (db.kind !== 'pglite')
    return db.asOwner((client) =>
      makeIndexBesideWriters(client, { ...index, statement: `create index concurrently ${name} on ${INDEXES[name]}` }),
    );
  // There is only one session, so nobody else writes.
  await db.asOwner((client) => client.query(`create index if not exists ${name} on ${INDEXES[name]}`));
  return true;
}

/** An entry from before the column. */
interface UnnamedEntry {
  tenant_id: string;
  agent_id: string;
  id: string;
}

/** Those whose column is not filled, newest first, after the previous page. */
export function listWithoutUser(db: Database, limit: number, before?: string): Promise<UnnamedEntry[]> {
  return db.asMaintenance((tx) =>
    tx.query<UnnamedEntry>(
      `select tenant_id, agent_id, id from memory_entries where user_id = ''
         and id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') order by id desc limit $2`,
      [before, limit],
    ),
  );
}

/** Fills in the users of these entries of one agent, by the trigger that fills in those of new ones; returns of how many. */
export async function fillUsers(tx: Tx, of: { agentId: string; ids: readonly string[] }): Promise<number> {
  await shareMemoryOf(tx, of.agentId);
  const filled = await tx.query(
    `update memory_entries e set user_id = null from (
        select id from memory_entries where id = any($1::uuid[]) and user_id = '' order by id for no key update) r
      where e.id = r.id returning 1`,
    [of.ids],
  );
  return filled.length;
}
