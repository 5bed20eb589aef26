/** The index of agents' errors. If the table had turns already, maintenance fills in their agents and creates it. */
import type { Database, Tx } from './database.ts';
import { makeIndexBesideWriters } from './make-index.ts';

/** Created by migration 0110 if there was no turn yet; `concurrently` does not block writers. */
const makeIndex = (concurrently: string) => `create index ${concurrently} if not exists turns_failed_of_agent
  on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed'`;

const BESIDE_WRITERS = {
  lock: 'drover:errors-index',
  name: 'turns_failed_of_agent',
  statement: makeIndex('concurrently'),
};

/** Whether the index exists and is valid; every failed turn then has its agent. */
export async function hasErrorsIndex(tx: Tx): Promise<boolean> {
  const [index] = await tx.query<{ valid: boolean }>(
    `select indisvalid as valid from pg_index where indexrelid = to_regclass('turns_failed_of_agent')`,
  );
  return index?.valid ?? false;
}

/** Failed turns without their agent, newest first, after the previous page. */
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

/** Fills in the agents of these turns of one tenant; returns how many were changed. */
export async function nameFailedAgents(tx: Tx, ids: readonly string[]): Promise<number> {
  const named = await tx.query(
    `update turns u set failed_agent_id = r.agent_id from runs r
     where u.id = any($1::uuid[]) and u.status = 'failed' and u.failed_agent_id is null and r.id = u.run_id returning 1`,
    [ids],
  );
  return named.length;
}

/** Creates the index; false if it exists, or another process is creating it. */
export async function makeErrorsIndex(db: Database): Promise<boolean> {
  // There is only one session, so nobody else writes.
  if (db.kind !== 'pglite') return db.asOwner((client) => makeIndexBesideWriters(client, BESIDE_WRITERS));
  await db.asOwner((client) => client.query(makeIndex('')));
  return true;
}
