import type { ClientBase, Pool, PoolClient } from 'pg';
import { isDatabaseAway } from './database-errors.ts';
import { becomeOwner, type SessionOwner } from './session.ts';

/** Runs `work` on a connection of the pool that acts for `owner` and that nobody else uses meanwhile. */
export async function withClient<T>(
  pool: Pool,
  owner: SessionOwner,
  work: (client: ClientBase) => Promise<T>,
): Promise<T> {
  const client = await pool.connect();
  let failure: unknown;
  try {
    await becomeOwner(client, owner);
    return await work(client);
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    client.release(isSpent(client, failure));
  }
}

/** Whether the next user of the connection could suffer from what this one left behind. */
function isSpent(client: PoolClient, failure: unknown): boolean {
  if (failure !== undefined && (isDatabaseAway(failure) || isStalePlan(failure))) return true;
  const status = client.getTransactionStatus();
  return status !== null && status !== 'I';
}

/** A statement that was prepared before a migration changed what it gives: a new connection prepares it anew. */
function isStalePlan(error: unknown): boolean {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === '26000' || (code === '0A000' && /cached plan/.test((error as Error).message));
}
