/** Rows that are written as they lie in the database, by its owner. */
import type { ClientBase } from 'pg';

/** A completed run as 0.1.0 writes it, created so many minutes ago. */
export async function insertRun(
  client: ClientBase,
  run: { tenant: string; id: string; thread: string; minutesAgo: number },
): Promise<void> {
  await asOwner(
    client,
    `insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, config,
       pinned, keep_open, lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at,
       updated_at, last_seq, fence, dormant)
     values ($1, $2, $2, $2, '1.0.0', $3, 'agent', 'completed', 1, '{}', '{}', false, $1, '[]', 0, 2, 1, 0, 0, 0,
       now() - $4 * interval '1 minute', now(), 9, 1, true)`,
    [run.id, run.tenant, run.thread, run.minutesAgo],
  );
}

/** A thread as 0.1.0 writes it. */
export async function insertThread(client: ClientBase, thread: { tenant: string; id: string }): Promise<void> {
  await asOwner(
    client,
    'insert into threads (id, tenant_id, workspace_id, agent_id, created_at) values ($1, $2, $2, $2, now())',
    [thread.id, thread.tenant],
  );
}

/** Row level security is forced on the owner of the tables, too. */
export async function asOwner(client: ClientBase, text: string, values: unknown[]): Promise<void> {
  await client.query('set row_security = off');
  await client.query(text, values);
  await client.query('set row_security = on');
}
