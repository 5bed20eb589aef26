import createKnex from 'knex';
import type { Knex } from 'knex';
import type { Tx } from './database.ts';

/** Knex without a connection: only builds queries, which a transaction sends (`fetchRows`). */
const builder = createKnex({ client: 'pg' });

/** A condition, ignored if its value is undefined. */
type Filter = readonly [column: string, operator: '=' | '<' | '<=' | '>' | '>=' | 'in', value: unknown];

/** `select columns from tables` with those filters whose value is not undefined. Question marks in the texts are parameters. */
export function selectFrom(columns: string, tables: string, filters: readonly Filter[] = []): Knex.QueryBuilder {
  const query = builder.queryBuilder().select(builder.raw(columns)).from(builder.raw(tables));
  for (const [column, operator, value] of filters) {
    if (value !== undefined) void query.where(column, operator, value as Knex.Value);
  }
  return query;
}

/** A list's rows by age, newest first by the database's clock. `before`: the last row of the previous page. */
interface ByAge {
  table: string;
  alias: string;
  before: string | undefined;
}

/** Orders a page by age. Its bound is two values, since an index is searched from those, and not from the row of a subquery. */
export function newestFirst(query: Knex.QueryBuilder, { table, alias, before }: ByAge): Knex.QueryBuilder {
  const [at, id] = [`${alias}.created_at`, `${alias}.id`];
  if (before !== undefined) {
    const last = `(select b.created_at from ${table} b where b.id = ?)`;
    void query.whereRaw(`(${at}, ${id}) < (${last}, ?::uuid)`, [before, before]);
  }
  return query.orderByRaw(`${at} desc, ${id} desc`);
}

/** Runs a query built here. */
export async function fetchRows<R extends object>(tx: Tx, query: Knex.QueryBuilder): Promise<R[]> {
  const { sql, bindings } = query.toSQL().toNative();
  return tx.query<R>(sql, bindings);
}

/**
 * A lateral join with columns computed from previous ones, such as an id in JSON. Under row level security, no index is
 * searched for an expression over another row that might leak what it reads, as a cast might; the whole table is read instead.
 * A column of a subquery that is not flattened avoids this.
 */
export function asColumns(expressions: string): string {
  return `cross join lateral (select ${expressions} offset 0)`;
}

/** So many joins are planned at once, at a cost that grows with each: a hundred took ten seconds. */
const MOST_JOINED = 4;

/** Conditions `… in (select …)` that all have to hold: joins at first, the others looked up in what their queries have found. */
export function allHold(conditions: readonly string[]): string {
  return conditions.map((each, index) => (index < MOST_JOINED ? each : `(${each}) is true`)).join(' and ');
}
