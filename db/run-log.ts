/** Helpers to find events in the log, whose index is by commits: see `run_events`. */

/**
 * The commit that contains a position (of an event, or beyond the end); no earlier event is in a later commit. The arguments
 * are parameters or columns.
 */
export function commitUpTo(run: string, seq: string): string {
  return `coalesce((select l.seq from run_log l where l.run_id = ${run} and l.seq >= ${seq} order by l.seq limit 1), 9223372036854775807)`;
}

/** How many events after the end of its turn what had come of an answer is written, at most. */
export const MOST_EVENTS_LATE = 100;

/**
 * A subquery for the first or last event `e` of a run that meets a condition, if any. It finds the event's commit first, by
 * index, since `order by e.commit_seq, e.seq` would read on to the next match. For kinds of events in every step that costs
 * nothing, and the plain order saves planning a second scan of all partitions.
 */
export function edgeEvent(which: 'first' | 'last', { run, where }: { run: string; where: string }): string {
  const way = which === 'first' ? 'asc' : 'desc';
  return `(select e.* from (
      select e.commit_seq from run_events e where e.run_id = ${run} and ${where} order by e.commit_seq ${way} limit 1) edge
    join run_events e on e.run_id = ${run} and e.commit_seq = edge.commit_seq and ${where} order by e.seq ${way} limit 1)`;
}
