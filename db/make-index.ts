/** Indexes on tables that are in use. */
import type { ClientBase } from 'pg';

/**
 * Makes an index `concurrently`, outside of any transaction, so that it holds up nobody who writes; answers whether it was made.
 * Where another process is making it, nobody waits. What a process that was killed has left behind is not valid, and goes first.
 */
export async function makeIndexBesideWriters(
  client: ClientBase,
  { lock, name, statement }: { lock: string; name: string; statement: string },
): Promise<boolean> {
  const locked = await client.query<{ ours: boolean }>('select pg_try_advisory_lock(hashtextextended($1, 0)) as ours', [
    lock,
  ]);
  if (!locked.rows[0]?.ours) return false;
  await client.query(`set lock_timeout = '10s'; set statement_timeout = '2h'`);
  const { rows } = await client.query<{ valid: boolean }>(
    'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
    [name],
  );
  if (rows[0]?.valid) return false;
  if (rows[0]) await client.query(`drop index concurrently if exists ${name}`);
  await client.query(statement);
  return true;
}
