/** The ways on which the queries of tests reach tables. Tests themselves call the functions beside this file. */
import assert from 'node:assert/strict';
import type { Database } from '../../../db/database.ts';
import type { Context } from '../../../modules/governance/context.ts';

/** One tenant's rows: an engine, or a platform with its tenant. */
export interface Tenant {
  context: { db: Database };
  tenantId: string;
}

/** Whoever owns the database. */
export interface Owner {
  context: Pick<Context, 'db' | 'runCache'>;
}

/** What the tenant sees. */
export function rows<R extends object>(
  { context, tenantId }: Tenant,
  sql: string,
  ...values: readonly unknown[]
): Promise<R[]> {
  return context.db.withTenant(tenantId, (tx) => tx.query<R>(sql, values));
}

/** The first row that the tenant sees, of which there has to be one. */
export async function row<R extends object>(tenant: Tenant, sql: string, ...values: readonly unknown[]): Promise<R> {
  const [first] = await rows<R>(tenant, sql, ...values);
  assert.ok(first, `no row: ${sql}`);
  return first;
}

/** What maintenance sees, of all tenants. */
export function rowsOfAll<R extends object>(db: Database, sql: string, ...values: readonly unknown[]): Promise<R[]> {
  return db.asMaintenance((tx) => tx.query<R>(sql, values));
}

/** What the owner of the database sees. */
export async function rowsAsOwner<R extends object>(
  db: Pick<Database, 'asOwner'>,
  sql: string,
  ...values: readonly unknown[]
): Promise<R[]> {
  return (await db.asOwner((client) => client.query<R>(sql, [...values]))).rows;
}

/** What only the owner of the database can do: tampering, which has to meet at least one row. */
export async function tamper({ context }: Owner, sql: string, ...values: readonly unknown[]): Promise<void> {
  context.runCache.clear();
  const { rowCount } = await context.db.asOwner((client) => client.query(sql, [...values]));
  assert.ok(rowCount, `nothing to tamper with: ${sql}`);
}
