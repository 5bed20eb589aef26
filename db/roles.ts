import type { ClientBase } from 'pg';
import { DatabaseRoleError } from './database-errors.ts';
import { APP_ROLE, MAINTENANCE_ROLE } from './connection-owner.ts';

/**
 * Creates the two roles if missing, and grants them to the current user.
 * @throws DatabaseRoleError with SQL for an administrator if the current user may not do that, or does not inherit their
 * rights: the functions that erase run as this user, and without these rights row level security would hide all rows from
 * them.
 */
export async function ensureRoles(client: ClientBase): Promise<void> {
  for (const role of [APP_ROLE, MAINTENANCE_ROLE]) await ensureRole(client, role);
  for (const role of [APP_ROLE, MAINTENANCE_ROLE]) await requireInheritance(client, role);
}

async function ensureRole(client: ClientBase, role: string): Promise<void> {
  if (await mayTake(client, role)) return;
  try {
    // Roles belong to the server: migrations of other databases may create them at the same time.
    await client.query(`do $$ begin
      create role ${role} nologin nosuperuser nobypassrls;
    exception when duplicate_object or unique_violation then null; end $$`);
    await client.query(`grant ${role} to current_user`);
  } catch (error) {
    if (!(await mayTake(client, role))) throw await explain(client, role, error);
  }
}

async function requireInheritance(client: ClientBase, role: string): Promise<void> {
  const { rows } = await client.query<{ user: string; inherits: boolean; version: number }>(
    `select quote_ident(current_user) as user, pg_has_role(current_user, $1, 'usage') as inherits,
       current_setting('server_version_num')::int as version`,
    [role],
  );
  const { user = 'current_user', inherits = false, version = 0 } = rows[0] ?? {};
  if (inherits) return;
  const remedy = version >= 160_000 ? `GRANT ${role} TO ${user} WITH INHERIT TRUE` : `ALTER ROLE ${user} INHERIT`;
  throw new DatabaseRoleError(
    `The database user ${user} may take the role ${role} but does not inherit its rights. An administrator can run: ${remedy};`,
  );
}

async function mayTake(client: ClientBase, role: string): Promise<boolean> {
  await client.query('begin');
  try {
    await client.query(`set local role ${role}`);
    return true;
  } catch {
    return false;
  } finally {
    await client.query('rollback');
  }
}

async function explain(client: ClientBase, role: string, error: unknown): Promise<Error> {
  const { rows } = await client.query<{ user: string; exists: boolean }>(
    `select quote_ident(current_user) as user, exists (select from pg_roles where rolname = $1) as exists`,
    [role],
  );
  const { user = 'current_user', exists = false } = rows[0] ?? {};
  const create = exists ? '' : `CREATE ROLE ${role} NOLOGIN; `;
  return new DatabaseRoleError(
    `The database user ${user} may not ${exists ? 'take' : 'create'} the role ${role}. ` +
      `An administrator can run: ${create}GRANT ${role} TO ${user};`,
    error,
  );
}
