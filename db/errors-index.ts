/** The index by which the errors of an agent are found. Where turns were there before it, maintenance names their agents and makes it. */
import type { ClientBase } from 'pg';
import type { Database, Tx } from './database.ts';

/** Made by the migration 0110 where there was no turn yet; `concurrently` leaves those alone who write meanwhile. */
const makeIndex = (concurrently: string) => `create index ${concurrently} if not exists turns_failed_of_agent
  on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed'`;

/** Whether it is there and whole; every failed turn says then whose it was. */
export async function hasErrorsIndex(tx: Tx): Promise<boolean> {
  const [index] = await tx.query<{ valid: boolean }>(
    `select indisvalid as valid from pg_index where indexrelid = to_regclass('turns_failed_of_agent')`,
  );
  return index?.valid ?? false;
}

/** Failed turns that do not say yet whose they were. */
export function listUnnamedFailures(db: Database, limit: number): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id from turns where status = 'failed' and failed_agent_id is null order by id desc limit $1`,
      [limit],
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

/** Makes the index; false where another process is making it. */
export async function makeErrorsIndex(db: Database): Promise<boolean> {
  // One session: nobody writes beside it.
  if (db.kind !== 'pglite') return db.asOwner(makeBesideOthers);
  await db.asOwner((client) => client.query(makeIndex('')));
  return true;
}

/** Outside of any transaction. What a process that was killed has left behind is not valid, and goes first. */
async function makeBesideOthers(client: ClientBase): Promise<boolean> {
  const { rows } = await client.query<{ ours: boolean }>(
    `select pg_try_advisory_lock(hashtextextended('drover:errors-index', 0)) as ours`,
  );
  if (!rows[0]?.ours) return false;
  await client.query(`set lock_timeout = '10s'; set statement_timeout = '2h'`);
  const left = await client.query(
    `select from pg_index where indexrelid = to_regclass('turns_failed_of_agent') and not indisvalid`,
  );
  if (left.rowCount) await client.query('drop index concurrently if exists turns_failed_of_agent');
  await client.query(makeIndex('concurrently'));
  return true;
}
