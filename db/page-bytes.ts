/** Pages of rows with content, limited in bytes as well as in rows. */
import type { Knex } from 'knex';
import { LIMITS } from '../core/limits.ts';
import type { Tx } from './database.ts';

/** A row, and the size of its content. */
export interface Sized {
  bytes: number;
}

/** The rows of a query, in order, until the sum of `bytes` fills a page, and at least one more if there is one. */
export function untilFull(rows: string, order: string): string {
  return `select * from (
      select sized.*, sum(sized.bytes) over (order by ${order} rows between unbounded preceding and 2 preceding) as bytes_before
      from (${rows}) sized) page
    where coalesce(page.bytes_before, 0) <= ${LIMITS.eventsPageBytes} order by ${order}`;
}

/** Consecutive rows of a list. */
export interface Page<R> {
  rows: R[];
  /** More rows follow. */
  more: boolean;
}

/** Makes a page from rows of `untilFull`, queried with `limit + 1`: those that fit, and always the first. */
export function pageOfSized<R extends Sized>(found: readonly R[], limit: number): Page<R> {
  let bytes = 0;
  const beyond = found.findIndex((row, index) => {
    bytes += row.bytes;
    return index === limit || (index > 0 && bytes > LIMITS.eventsPageBytes);
  });
  return { rows: beyond < 0 ? [...found] : found.slice(0, beyond), more: beyond >= 0 };
}

/** A page of a query with a column `bytes`; `order` refers to the query's columns. */
export async function fetchSizedPage<R extends object>(
  tx: Tx,
  query: Knex.QueryBuilder,
  { order, limit }: { order: string; limit: number },
): Promise<Page<R>> {
  const { sql, bindings } = query
    .orderByRaw(order)
    .limit(limit + 1)
    .toSQL()
    .toNative();
  const found = await tx.query<Sized & { bytes_before: unknown }>(untilFull(sql, order), bindings);
  const { rows, more } = pageOfSized(found, limit);
  return { rows: rows.map(({ bytes: _bytes, bytes_before: _before, ...row }) => row as R), more };
}
