/** The schema as text, from the catalogs; depends on the migrations only, not on date or server. */
import type { ClientBase } from 'pg';

/** Excludes Knex's own tables, and partitions of days and months. */
const OURS = `c.relnamespace = 'public'::regnamespace and c.relname !~ '^schema_(migrations|functions)' and c.relname !~ '_\\d{8}$'
  and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')`;

const TABLES = `
  select c.oid::int as oid, c.relname as name, obj_description(c.oid, 'pg_class') as comment, c.relkind = 'v' as is_view, c.reloptions::text as options, c.relrowsecurity as secured, c.relforcerowsecurity as forced,
    pg_get_partkeydef(c.oid) as partitioned_by, pg_get_expr(c.relpartbound, c.oid) as bound,
    (select i.inhparent::regclass::text from pg_inherits i where i.inhrelid = c.oid) as parent
  from pg_class c where c.relkind in ('r', 'p', 'v') and ${OURS} order by c.relname`;

const COLUMNS = `
  select a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
    || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '') as line
  from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
  where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum`;

const CONSTRAINTS = `
  select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) as line
  from pg_constraint where conrelid = $1 and contype <> 'n' order by contype, conname`;

const INDEXES = `
  select pg_get_indexdef(i.indexrelid) as line from pg_index i join pg_class c on c.oid = i.indexrelid
  where i.indrelid = $1 and not exists (select from pg_constraint k where k.conindid = i.indexrelid) order by c.relname`;

const POLICIES = `
  select 'policy ' || policyname || ' for ' || lower(cmd) || ' to ' || array_to_string(roles, ', ')
    || coalesce(' using ' || qual, '') || coalesce(' with check ' || with_check, '') as line
  from pg_policies where schemaname = 'public' and tablename = $1 order by policyname`;

const GRANTS = `
  select 'grant ' || string_agg(lower(a.privilege_type), ', ' order by a.privilege_type) || ' to ' || a.grantee::regrole as line
  from pg_class c, aclexplode(c.relacl) a
  where c.oid = $1 and a.grantee <> c.relowner and a.grantee <> 0 group by a.grantee order by a.grantee::regrole::text`;

const DOMAINS = `
  select 'domain ' || t.typname || ' as ' || format_type(t.typbasetype, t.typtypmod) || ' '
    || coalesce(string_agg(pg_get_constraintdef(k.oid), ' ' order by k.conname), '') as line
  from pg_type t left join pg_constraint k on k.contypid = t.oid
  where t.typnamespace = 'public'::regnamespace and t.typtype = 'd' group by t.oid order by t.typname`;

const FUNCTIONS = `
  select 'function ' || p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ') returns '
    || pg_get_function_result(p.oid) || case when p.prosecdef then ' security definer' else '' end
    || ' executable by ' || case when p.proacl is null then 'public' else coalesce((select string_agg(
      case when a.grantee = 0 then 'public' else a.grantee::regrole::text end, ', ' order by a.grantee)
      from aclexplode(p.proacl) a where a.grantee <> p.proowner), 'its owner') end as line
  from pg_proc p where p.pronamespace = 'public'::regnamespace
    and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e') order by p.proname`;

interface Table {
  oid: number;
  name: string;
  comment: string | null;
  is_view: boolean;
  options: string | null;
  secured: boolean;
  forced: boolean;
  partitioned_by: string | null;
  bound: string | null;
  parent: string | null;
}

/** Tables and views with comments, columns, constraints, indexes, policies and grants; domains; functions. `client` is the owner's. */
export async function describeSchema(client: ClientBase): Promise<string> {
  const lines = async (sql: string, values: unknown[] = []) =>
    (await client.query<{ line: string }>(sql, values)).rows.map(({ line }) => line);
  const { rows: tables } = await client.query<Table>(TABLES);
  const parts: string[] = [(await lines(DOMAINS)).join('\n')];
  for (const table of tables) parts.push(await describeTable(table, lines));
  parts.push((await lines(FUNCTIONS)).join('\n'));
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

async function describeTable(
  table: Table,
  lines: (sql: string, values: unknown[]) => Promise<string[]>,
): Promise<string> {
  if (table.parent !== null) return `table ${table.name} partition of ${table.parent} ${table.bound ?? ''}`;
  const security = table.secured ? ` row level security${table.forced ? ' forced' : ''}` : '';
  const partitions = table.partitioned_by === null ? '' : ` partition by ${table.partitioned_by}`;
  const body = [
    ...(table.comment === null ? [] : [`comment '${table.comment}'`]),
    ...(await lines(COLUMNS, [table.oid])),
    ...(await lines(CONSTRAINTS, [table.oid])),
    ...(await lines(INDEXES, [table.oid])),
    ...(await lines(POLICIES, [table.name])),
    ...(await lines(GRANTS, [table.oid])),
  ];
  const head = table.is_view
    ? `view ${table.name} ${table.options ?? ''}`
    : `table ${table.name}${partitions}${security}`;
  return [head, ...body.map((line) => `  ${line}`)].join('\n');
}
