import createKnex from 'knex';
import type { Knex } from 'knex';
import type { Tx } from './database.ts';

/** Knex without a connection: it puts queries together, which a transaction sends (`fetchRows`). */
const builder = createKnex({ client: 'pg' });

/** A condition that holds only where its value is given. */
type Filter = readonly [column: string, operator: '=' | '<' | '<=' | '>' | '>=' | 'in', value: unknown];

/** `select columns from tables`, narrowed by those filters whose value is not undefined. A question mark in a text is a value. */
export function selectFrom(columns: string, tables: string, filters: readonly Filter[] = []): Knex.QueryBuilder {
  const query = builder.queryBuilder().select(builder.raw(columns)).from(builder.raw(tables));
  for (const [column, operator, value] of filters) {
    if (value !== undefined) void query.where(column, operator, value as Knex.Value);
  }
  return query;
}

/** Runs a query that was put together here. */
export async function fetchRows<R extends object>(tx: Tx, query: Knex.QueryBuilder): Promise<R[]> {
  const { sql, bindings } = query.toSQL().toNative();
  return tx.query<R>(sql, bindings);
}

/**
 * A lateral join whose columns are worked out of those before it, as an id is that stands in JSON. Row level security lets no
 * index be searched for an expression over another row that might tell what it reads, which a cast might: the whole
 * table is read instead. A column of a subquery that stays one is no such expression.
 */
export function asColumns(expressions: string): string {
  return `cross join lateral (select ${expressions} offset 0)`;
}
