/** Pages of rows with content: they end where they are large enough, however many rows are asked for. */
import { LIMITS } from '../core/limits.ts';

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

/** How many of these rows fit on a page: the first one does, whatever its size. */
export function countFitting(rows: readonly Sized[]): number {
  let bytes = 0;
  const beyond = rows.findIndex((row, index) => {
    bytes += row.bytes;
    return index > 0 && bytes > LIMITS.eventsPageBytes;
  });
  return beyond < 0 ? rows.length : beyond;
}
