/** Creates indexes on tables in use. */
import type { ClientBase } from 'pg';

/**
 * Creates an index `concurrently`, outside of any transaction, without blocking writers; returns whether it did. Does not wait
 * if another process is creating it. An invalid index left by a killed process is dropped first.
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
