import type { ClientBase } from 'pg';
import { DatabaseRoleError, MIGRATE_FIRST } from './database-errors.ts';

/** On whose behalf a connection acts: determines row level security, and the schema of unqualified names. */
export type ConnectionOwner = 'app' | 'maintenance' | 'owner' | 'queue';

export const APP_ROLE = 'drover_app';
export const MAINTENANCE_ROLE = 'drover_maintenance';
export const QUEUE_SCHEMA = 'bullmq';

const BECOME: Record<ConnectionOwner, string> = {
  app: `set role ${APP_ROLE}; reset search_path`,
  maintenance: `set role ${MAINTENANCE_ROLE}; reset search_path`,
  owner: 'reset role; reset search_path',
  queue: `reset role; set search_path to ${QUEUE_SCHEMA}`,
};

/** The current owner of each connection; a new connection, which is not here, acts as the role it logged in with. */
const owners = new WeakMap<ClientBase, ConnectionOwner>();

/**
 * Makes the connection act for `owner`; free if it already does. Awaited, never pipelined: if it failed unnoticed, later
 * statements would run as a role that sees every tenant.
 */
export async function becomeOwner(client: ClientBase, owner: ConnectionOwner): Promise<void> {
  if (owners.get(client) === owner) return;
  owners.delete(client);
  await client.query(BECOME[owner]);
  owners.set(client, owner);
}

/** Behind a pooler, the login determines the role: none is set, since the next statement may have another session. */
export function isOwnerByLogin(client: ClientBase, owner: ConnectionOwner): void {
  owners.set(client, owner);
}

/** @throws DatabaseRoleError if a role cannot be set, or bypasses row level security. */
export async function checkRoles(client: ClientBase): Promise<void> {
  for (const [owner, role] of [
    ['app', APP_ROLE],
    ['maintenance', MAINTENANCE_ROLE],
  ] as const) {
    try {
      await becomeOwner(client, owner);
    } catch (error) {
      throw explainRoleError(error, role);
    }
    const { rows } = await client.query<{ bypasses: boolean }>(
      'select rolsuper or rolbypassrls as bypasses from pg_roles where rolname = current_user',
    );
    if (rows[0]?.bypasses !== false) {
      const remedy = `ALTER ROLE ${role} NOSUPERUSER NOBYPASSRLS`;
      throw new DatabaseRoleError(`The role ${role} bypasses row level security. An administrator can run: ${remedy};`);
    }
  }
}

function explainRoleError(error: unknown, role: string): unknown {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  // 22023: the role does not exist; 42501: it may not be set.
  if (code === '22023') {
    return new DatabaseRoleError(`The role ${role} is missing from the database. ${MIGRATE_FIRST}`, error);
  }
  if (code !== '42501') return error;
  const remedy = `GRANT ${role} TO <the user of DATABASE_URL>`;
  return new DatabaseRoleError(
    `The user of DATABASE_URL may not take the role ${role}. An administrator can run: ${remedy};`,
    error,
  );
}
