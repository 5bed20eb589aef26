import { randomInt } from 'node:crypto';
import type { ClientBase } from 'pg';
import { ConfigError } from '../lib/environment.ts';
import { RefusesWritesError } from '../lib/refuses-writes-error.ts';
import type { Tx } from './database.ts';
import { DatabaseRoleError } from './database-errors.ts';
import { APP_ROLE, MAINTENANCE_ROLE } from './connection-owner.ts';

interface Login {
  name: string;
  isApp: boolean;
  seesAll: boolean;
  hasDefaults: boolean;
  writes: boolean;
}

/**
 * Checks that the login of DATABASE_POOL_URL has by itself the settings that other connections make for their session.
 * @throws DatabaseRoleError with SQL for an administrator if it lacks some, or has more rights than drover_app.
 */
export async function checkPooledLogin(tx: Tx): Promise<void> {
  const [login] = await tx.query<Login>(
    `select quote_ident(current_user) as name, pg_has_role(current_user, $1, 'usage') as "isApp",
       rolsuper or rolbypassrls or pg_has_role(current_user, $2, 'member')
         or exists (select from pg_class where oid = 'runs'::regclass and pg_has_role(current_user, relowner, 'member'))
         as "seesAll",
       current_setting('timezone') = 'UTC' and current_setting('statement_timeout') <> '0'
         and current_setting('idle_in_transaction_session_timeout') <> '0' as "hasDefaults",
       current_setting('transaction_read_only') = 'off'
         or not exists (select from pg_db_role_setting s, unnest(s.setconfig) as setting
           where s.setrole = pg_roles.oid and setting like 'default\\_transaction\\_read\\_only=%') as writes
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
  if (!login.writes) {
    throw new DatabaseRoleError(
      `Sessions of the user ${name} of DATABASE_POOL_URL take no writes. An administrator can run: ` +
        `ALTER ROLE ${name} RESET default_transaction_read_only; and let the pooler connect again.`,
    );
  }
}

/** First of the two numbers of an advisory lock; no other lock of Drover uses it. */
const PROOF_LOCK = 7_236_419;

/**
 * Proves that both URLs lead to the same database: a lock held over DATABASE_URL cannot be taken over DATABASE_POOL_URL. Names
 * and identifiers prove less, since a copy of a server's files has the same. Locks belong to one database of one running
 * server, and any login may take them.
 * @throws ConfigError if they lead to different databases; RefusesWritesError while one leads to a replica, as after a
 * failover that the other has not followed yet.
 */
export async function checkSameDatabase(direct: ClientBase, readPooled: ReadPooled): Promise<void> {
  const lock = [PROOF_LOCK, randomInt(2 ** 31)];
  // Held by a transaction, since DATABASE_URL may lead to a pooler, too.
  await direct.query('begin');
  try {
    await direct.query('select pg_advisory_xact_lock($1, $2)', lock);
    const [pooled] = await readPooled((tx) => tx.query<Seen>(`select not ${TRY_LOCK} as held, ${IS_REPLICA}`, lock));
    if (pooled?.held === true) return;
    const { rows } = await direct.query<Pick<Seen, 'replica'>>(`select ${IS_REPLICA}`);
    if (pooled?.replica === true) throw ofReplica('DATABASE_POOL_URL');
    if (rows[0]?.replica === true) throw ofReplica('DATABASE_URL');
  } finally {
    await direct.query('rollback');
  }
  const problem = 'leads to another database than DATABASE_URL';
  throw new ConfigError('DATABASE_POOL_URL', problem, 'the same one, behind a pooler');
}

const ofReplica = (variable: string) => new RefusesWritesError(`read-only: ${variable} leads to a replica`);

/** Runs `work` in a transaction over DATABASE_POOL_URL. */
type ReadPooled = <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;

interface Seen {
  held: boolean;
  replica: boolean;
}

const TRY_LOCK = 'pg_try_advisory_xact_lock($1, $2)';
const IS_REPLICA = 'pg_is_in_recovery() as replica';

/** Messages about refused logins, from Postgres and from PgBouncer, whose single code also covers temporary errors. */
const REFUSALS =
  /authentication failed|no such (user|database)|(role|database) ".*" does not exist|does not support SSL/;

/** Throws a connection's error; a refused login is reported with the variable that contains it. */
export function explainRefusal(error: unknown): never {
  if (!(error instanceof Error) || !REFUSALS.test(error.message)) throw error;
  throw new DatabaseRoleError(`DATABASE_POOL_URL leads to a server that refuses it: ${error.message}.`, error);
}
