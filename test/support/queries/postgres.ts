/** What the database server says of itself: sessions, locks and plans. */
import type { ClientBase } from 'pg';
import type { Database, Tx } from '../../../db/database.ts';
import { hasErrorsIndex, listUnnamedFailures } from '../../../db/errors-index.ts';
import { query } from '../template.ts';
import { rowsAsOwner } from './access.ts';

/** Server processes of this database that wait for a lock in such a statement. */
export async function sessionsWaitingIn(db: Pick<Database, 'asOwner'>, statement: string): Promise<number[]> {
  return (await rowsAsOwner<{ pid: number }>(db, WAITING, `%${statement}%`)).map(({ pid }) => pid);
}

const WAITING = `select pid from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and query like $1`;

/** The same for a client that is in a transaction, where what is under way is shown as it was at the first look. */
export async function countWaitingIn(client: Queries, statement: string): Promise<number> {
  await client.query('select pg_stat_clear_snapshot()');
  return (await client.query(WAITING, [`${statement}%`])).rows.length;
}

type Queries = Pick<ClientBase, 'query'>;

/** Begins a transaction that lets nobody write to a table until it ends. */
export async function holdTable(client: Queries, table: string): Promise<void> {
  await client.query(`begin; lock table ${table} in share row exclusive mode`);
}

/** The same until something is done. */
export async function whileTableHeld<T>(
  db: Pick<Database, 'asOwner'>,
  table: string,
  act: () => Promise<T>,
): Promise<T> {
  return db.asOwner(async (client) => {
    await holdTable(client, table);
    try {
      return await act();
    } finally {
      await client.query('commit');
    }
  });
}

/** Ends a session in the middle of what it does. */
export async function terminateSession(db: Pick<Database, 'asOwner'>, pid: number): Promise<void> {
  await rowsAsOwner(db, 'select pg_terminate_backend($1)', pid);
}

/** Ends what a session does, as its time limit would. */
export async function cancelStatement(db: Pick<Database, 'asOwner'>, pid: number): Promise<void> {
  await rowsAsOwner(db, 'select pg_cancel_backend($1)', pid);
}

/** For a superuser: ends the sessions that listen to what is announced in the database at this address. */
export function terminatingListeners(databaseUrl: string | undefined): string {
  return `select pg_terminate_backend(pid) from pg_stat_activity
    where query ~* 'listen' and application_name = 'drover' and datname = '${new URL(databaseUrl ?? '').pathname.slice(1)}'`;
}

/** NOTIFY in a statement of its own. */
export async function notify(db: Pick<Database, 'call'>, channel: string, payload: string): Promise<void> {
  await db.call({ name: 'notify', text: 'select pg_notify($1, $2)', values: [channel, payload] });
}

/** The time at which a transaction began, which it takes for now from its first statement on. */
export async function databaseTimeIn(tx: Tx): Promise<Date | undefined> {
  return (await tx.query<{ at: Date }>('select now() as at'))[0]?.at;
}

/** Makes the planner know all tables as they are. */
export async function analyze(db: Pick<Database, 'asOwner'>): Promise<void> {
  await rowsAsOwner(db, 'analyze');
}

/** The time of the database. */
export async function databaseTime(db: Pick<Database, 'asOwner'>): Promise<Date | undefined> {
  return (await rowsAsOwner<{ at: Date }>(db, 'select clock_timestamp() as at'))[0]?.at;
}

/** Sessions that since then have waited for transactions under way to end. */
export function sessionsAwaitingWriters(db: Pick<Database, 'asOwner'>, since: Date | undefined): Promise<object[]> {
  return rowsAsOwner(
    db,
    `select pid from pg_stat_activity where datname = current_database() and query_start > $1
       and pid <> pg_backend_pid() and query like '%virtualtransaction = any%'`,
    since,
  );
}

/** New sessions of this database write nothing, as on a replica, until it is taken back. Sessions of before are as they were. */
export async function makeReadOnly(db: Pick<Database, 'asOwner'>, isReadOnly: boolean): Promise<void> {
  await db.asOwner(async (client) => {
    await client.query('set default_transaction_read_only = off');
    const { rows } = await client.query<{ name: string }>('select quote_ident(current_database()) as name');
    const state = isReadOnly ? 'on' : 'off';
    await client.query(`alter database ${rows[0]?.name} set default_transaction_read_only = ${state}`);
  });
}

/** The queue's tables are gone from the database at this address. */
export async function dropQueue(databaseUrl: string): Promise<void> {
  await query(databaseUrl, 'drop schema bullmq cascade');
}

/** No table is read as a whole in this transaction, however small it is, where an index serves. */
export async function forbidFullReads(tx: Tx): Promise<void> {
  await tx.query('set local enable_seqscan = off');
}

/** Nothing is put in order in this transaction where an index has that order, however small the table. */
export async function forbidSorting(tx: Tx): Promise<void> {
  await tx.query('set local enable_sort = off');
}

/** How the database would answer. */
export async function planOf(tx: Tx, sql: string, values: readonly unknown[] = []): Promise<string> {
  const lines = await tx.query<{ 'QUERY PLAN': string }>(`explain ${sql}`, values);
  return lines.map((line) => line['QUERY PLAN']).join('\n');
}

/** How all that is asked for would be read if no table were small. */
export function plansOf(db: Database, tenantId: string, read: (tx: Tx) => Promise<unknown>): Promise<string> {
  return db.withTenant(tenantId, async (tx) => {
    await forbidFullReads(tx);
    const plans: string[] = [];
    const explain = async (sql: string, values?: readonly unknown[]) => {
      plans.push(await planOf(tx, sql, values));
      return [];
    };
    await read({ ...tx, query: explain });
    return plans.join('\n');
  });
}

/** A transaction that tells the plan of each statement, with the rows that each part of it met, and answers none. */
export function explaining(tx: Tx, tell: (plan: string) => void): Tx {
  return {
    last: (text, values) => tx.last(text, values),
    async query<R extends object>(sql: string, values?: readonly unknown[]): Promise<R[]> {
      tell(await planOf(tx, `(analyze, costs off, timing off, buffers off) ${sql}`, values));
      return [];
    },
  };
}

interface ReadPart {
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  Plans?: ReadPart[];
}

/** How many rows of each table are looked at for an answer, those left out too, if no table were small, and what the answer is. */
export async function countRowsRead<T>(
  db: Database,
  tenantId: string,
  read: (tx: Tx) => Promise<T>,
): Promise<{ counts: Map<string, number>; found: T }> {
  const counts = new Map<string, number>();
  const found = await db.withTenant(tenantId, async (tx) => {
    await forbidFullReads(tx);
    return read({
      ...tx,
      async query<R extends object>(sql: string, values?: readonly unknown[]): Promise<R[]> {
        const explained = `explain (analyze, costs off, timing off, format json) ${sql}`;
        const [row] = await tx.query<{ 'QUERY PLAN': [{ Plan: ReadPart }] }>(explained, values);
        if (row) addRowsRead(counts, row['QUERY PLAN'][0].Plan);
        return tx.query<R>(sql, values);
      },
    });
  });
  return { counts, found };
}

function addRowsRead(counts: Map<string, number>, part: ReadPart): void {
  const { 'Rows Removed by Filter': filtered = 0, 'Rows Removed by Index Recheck': rechecked = 0 } = part;
  const table = part['Relation Name'];
  const rows = (part['Actual Rows'] + filtered + rechecked) * part['Actual Loops'];
  if (table) counts.set(table, (counts.get(table) ?? 0) + rows);
  for (const each of part.Plans ?? []) addRowsRead(counts, each);
}

/** How often a prepared statement is planned for its values, of so many executions. `values` are as SQL has them. */
export async function countPlans(tx: Tx, sql: string, executions: { values: string; times: number }): Promise<number> {
  await tx.query(`prepare counted as ${sql}`);
  for (let time = 0; time < executions.times; time++) await tx.query(`execute counted (${executions.values})`);
  const [row] = await tx.query<{ custom_plans: number }>(
    "select custom_plans from pg_prepared_statements where name = 'counted'",
  );
  await tx.query('deallocate counted');
  return Number(row?.custom_plans);
}

/** The tables that may hold texts. */
export async function tablesWithTexts(
  db: Pick<Database, 'asOwner'>,
): Promise<{ name: string; comment: string | null }[]> {
  const found = await rowsAsOwner<{ name: string; comment: string | null }>(
    db,
    `select distinct c.table_name as name, obj_description(k.oid, 'pg_class') as comment from information_schema.columns c
       join information_schema.tables t using (table_schema, table_name)
       join pg_class k on k.oid = format('%I.%I', c.table_schema, c.table_name)::regclass
     where c.table_schema = 'public' and t.table_type = 'BASE TABLE' and not k.relispartition
       and c.data_type in ('text', 'character varying', 'json', 'jsonb', 'bytea', 'ARRAY')
       and c.table_name !~ '^schema_(migrations|functions)$'`,
  );
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** Columns with texts of these tables that their statements do not write, neither themselves nor by the functions that they call. */
export async function textsLeftBy(
  db: Pick<Database, 'asOwner'>,
  statements: Readonly<Record<string, string>>,
): Promise<string[]> {
  const bodies = await rowsAsOwner<{ name: string; body: string }>(
    db,
    `select proname as name, prosrc as body from pg_proc where pronamespace = 'public'::regnamespace and prolang in
       (select oid from pg_language where lanname in ('sql', 'plpgsql'))`,
  );
  const whole = (text: string, depth = 0): string =>
    [
      text,
      ...bodies.filter(({ name }) => depth < 3 && text.includes(`${name}(`)).map(({ body }) => whole(body, depth + 1)),
    ].join(' ');
  const columns = await rowsAsOwner<{ table: string; column: string }>(
    db,
    `select table_name as table, column_name as column from information_schema.columns
     where table_schema = 'public' and table_name = any($1)
       and domain_name is null and ltrim(udt_name, '_') in ('text', 'varchar', 'json', 'jsonb', 'bytea') order by 1, 2`,
    Object.keys(statements),
  );
  const left = columns.filter(({ table, column }) => {
    const sql = whole(statements[table] ?? '');
    return !new RegExp(`delete from ${table}\\b`).test(sql) && !new RegExp(`(set|,)\\s+${column} = `).test(sql);
  });
  return left.map(({ table, column }) => `${table}.${column}`);
}

/** How many rows of a table the transaction has read so far, whether it needed them or not. */
export async function readRows(tx: Tx, table: string): Promise<number> {
  const [row] = await tx.query<{ rows: number }>(
    'select (seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables where relname = $1',
    [table],
  );
  return row?.rows ?? 0;
}

/** As it was before the migration 0110, with all the turns that there are. */
export async function undoErrorsIndex(db: Pick<Database, 'asOwner'>): Promise<void> {
  await db.asOwner((client) =>
    client.query(`alter table turns drop column failed_agent_id;
      delete from schema_migrations where name in ('0110-errors-of-an-agent', '0170-lean-commits')`),
  );
}

/** How many failed turns do not say whose they were, and whether an index finds those that do. */
export async function stateOfErrors(db: Database): Promise<{ unnamed: number; indexed: boolean }> {
  const unnamed = await listUnnamedFailures(db, 1000);
  return { unnamed: unnamed.length, indexed: await db.asMaintenance(hasErrorsIndex) };
}

/** As if a process that made the index of errors had been killed. */
export function breakErrorsIndex(db: Pick<Database, 'asOwner'>): Promise<unknown> {
  return db.asOwner((client) =>
    client.query(`create index turns_failed_of_agent on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed';
      update pg_index set indisvalid = false where indexrelid = 'turns_failed_of_agent'::regclass`),
  );
}

/** The next start finds a function to create again, and gets no space for it. */
export async function fillDiskAtNextStart(client: ClientBase): Promise<void> {
  await client.query(
    `delete from schema_functions where name = (select min(name) from schema_functions);
     create function refuse() returns event_trigger language plpgsql as $$
       begin raise exception using errcode = '53100', message = 'could not extend file'; end $$;
     create event trigger full_disk on ddl_command_start execute function refuse();`,
  );
}

/** No commit of a run finds space, until it is freed. */
export async function fillDisk(db: Pick<Database, 'asOwner'>): Promise<void> {
  await db.asOwner((client) =>
    client.query(
      `create sequence refusals;
       create function refuse() returns trigger language plpgsql security definer as $$
         begin
           perform nextval('public.refusals');
           raise exception using errcode = '53100', message = 'could not extend file';
         end $$;
       create trigger full_disk before insert on run_log for each row execute function refuse();`,
    ),
  );
}

/** How many commits have found no space. */
export async function countRefusals(db: Pick<Database, 'asOwner'>): Promise<number> {
  const { rows } = await db.asOwner((client) =>
    client.query<{ count: string }>('select case when is_called then last_value else 0 end as count from refusals'),
  );
  return Number(rows[0]?.count);
}

export async function freeDisk(db: Pick<Database, 'asOwner'>): Promise<void> {
  await db.asOwner((client) =>
    client.query('drop trigger full_disk on run_log; drop function refuse; drop sequence refusals;'),
  );
}
