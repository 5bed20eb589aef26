/** Pages of rows with content: they end where they are large enough, however many rows are asked for. */
import type { Knex } from 'knex';
import { LIMITS } from '../core/limits.ts';
import type { Tx } from './database.ts';

/** A row with the size of its content. */
export interface Sized {
  bytes: number;
}

/** The rows of a query in their order until a page is full by their column `bytes`, with one more at least where there is one. */
export function untilFull(rows: string, order: string): string {
  return `select * from (
      select sized.*, sum(sized.bytes) over (order by ${order} rows between unbounded preceding and 2 preceding) as bytes_before
      from (${rows}) sized) page
    where coalesce(page.bytes_before, 0) <= ${LIMITS.eventsPageBytes} order by ${order}`;
}

/** Some of the rows of a list, in their order. */
export interface Page<R> {
  rows: R[];
  /** There are others after them. */
  more: boolean;
}

/** A page out of the rows of `untilFull`, of which `limit + 1` were asked for: those that fit, and the first one whatever its size. */
export function pageOfSized<R extends Sized>(found: readonly R[], limit: number): Page<R> {
  let bytes = 0;
  const beyond = found.findIndex((row, index) => {
    bytes += row.bytes;
    return index === limit || (index > 0 && bytes > LIMITS.eventsPageBytes);
  });
  return { rows: beyond < 0 ? [...found] : found.slice(0, beyond), more: beyond >= 0 };
}

/** A page of a query that has a column `bytes`; `order` names columns of the query. */
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
