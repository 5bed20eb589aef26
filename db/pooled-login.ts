import type { Tx } from './database.ts';
import { DatabaseRoleError } from './database-errors.ts';
import { APP_ROLE, MAINTENANCE_ROLE } from './session.ts';

interface Login {
  name: string;
  isApp: boolean;
  seesAll: boolean;
  hasDefaults: boolean;
}

/**
 * The login of DATABASE_POOL_URL has what other connections set for their session by itself.
 * @throws DatabaseRoleError with the SQL for an administrator, where it has not, or may do more than drover_app.
 */
export async function checkPooledLogin(tx: Tx): Promise<void> {
  const [login] = await tx.query<Login>(
    `select quote_ident(current_user) as name, pg_has_role(current_user, $1, 'usage') as "isApp",
       rolsuper or rolbypassrls or pg_has_role(current_user, $2, 'member')
         or exists (select from pg_class where oid = 'runs'::regclass and pg_has_role(current_user, relowner, 'member'))
         as "seesAll",
       current_setting('timezone') = 'UTC' and current_setting('statement_timeout') <> '0'
         and current_setting('idle_in_transaction_session_timeout') <> '0' as "hasDefaults"
     from pg_roles where rolname = current_user`,
    [APP_ROLE, MAINTENANCE_ROLE],
  );
  if (!login) throw new DatabaseRoleError('The user of DATABASE_POOL_URL is not to be found in pg_roles.');
  const { name } = login;
  if (login.seesAll) {
    throw new DatabaseRoleError(
      `The user ${name} of DATABASE_POOL_URL may do more than ${APP_ROLE}. An administrator can make another one: ` +
        `CREATE ROLE drover_pool LOGIN PASSWORD '…' IN ROLE ${APP_ROLE};`,
    );
  }
  if (!login.isApp) {
    throw new DatabaseRoleError(
      `The user ${name} of DATABASE_POOL_URL is no member of ${APP_ROLE}. An administrator can run: GRANT ${APP_ROLE} TO ${name};`,
    );
  }
  if (!login.hasDefaults) {
    throw new DatabaseRoleError(
      `Sessions of the user ${name} of DATABASE_POOL_URL need a time zone and limits of their own. An administrator can run: ` +
        `ALTER ROLE ${name} SET timezone = 'UTC'; ALTER ROLE ${name} SET statement_timeout = '30s'; ` +
        `ALTER ROLE ${name} SET idle_in_transaction_session_timeout = '15s'; and let the pooler connect again.`,
    );
  }
}

/** What is said of a login that is not right by Postgres, and by PgBouncer, which has one code for that and for much that passes. */
const REFUSALS =
  /authentication failed|no such (user|database)|(role|database) ".*" does not exist|does not support SSL/;

/** Throws what a connection has failed with: a refused login under the name of the variable that has it. */
export function explainRefusal(error: unknown): never {
  if (!(error instanceof Error) || !REFUSALS.test(error.message)) throw error;
  throw new DatabaseRoleError(`DATABASE_POOL_URL leads to a server that refuses it: ${error.message}.`, error);
}
