/** The index by which the errors of an agent are found. Where turns were there before it, maintenance names their agents and makes it. */
import type { Database, Tx } from './database.ts';
import { makeIndexBesideWriters } from './make-index.ts';

/** Made by the migration 0110 where there was no turn yet; `concurrently` leaves those alone who write meanwhile. */
const makeIndex = (concurrently: string) => `create index ${concurrently} if not exists turns_failed_of_agent
  on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed'`;

const BESIDE_WRITERS = {
  lock: 'drover:errors-index',
  name: 'turns_failed_of_agent',
  statement: makeIndex('concurrently'),
};

/** Whether it is there and whole; every failed turn says then whose it was. */
export async function hasErrorsIndex(tx: Tx): Promise<boolean> {
  const [index] = await tx.query<{ valid: boolean }>(
    `select indisvalid as valid from pg_index where indexrelid = to_regclass('turns_failed_of_agent')`,
  );
  return index?.valid ?? false;
}

/** Failed turns that do not say yet whose they were, from the newest on, or from where a page before has ended. */
export function listUnnamedFailures(
  db: Database,
  limit: number,
  before?: string,
): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from turns where status = 'failed' and failed_agent_id is null
         and id < coalesce($1::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') order by id desc limit $2`,
      [before, limit],
    ),
  );
}

/** Says of these turns of one tenant whose they were; answers of how many. */
export async function nameFailedAgents(tx: Tx, ids: readonly string[]): Promise<number> {
  const named = await tx.query(
    `update turns u set failed_agent_id = r.agent_id from runs r
     where u.id = any($1::uuid[]) and u.status = 'failed' and u.failed_agent_id is null and r.id = u.run_id returning 1`,
    [ids],
  );
  return named.length;
}

/** Makes the index; false where it is there, or another process is making it. */
export async function makeErrorsIndex(db: Database): Promise<boolean> {
  // One session: nobody writes beside it.
  if (db.kind !== 'pglite') return db.asOwner((client) => makeIndexBesideWriters(client, BESIDE_WRITERS));
  await db.asOwner((client) => client.query(makeIndex('')));
  return true;
}
