/** How statements find events in the log, whose index has its commits: see `run_events`. */

/** The last commit up to a position (of an event, or beyond the end): no event before it came later. Both are a parameter or a column. */
export function commitUpTo(run: string, seq: string): string {
  return `coalesce((select l.seq from run_log l where l.run_id = ${run} and l.seq >= ${seq} order by l.seq limit 1), 9223372036854775807)`;
}

/**
 * As a table: the first or the last event `e` of a run that meets a condition, if there is one. First its commit, which an index
 * gives in order; `order by e.commit_seq, e.seq` would read on to the next one that meets it. That is nothing for a kind of event
 * that each step has, and saves planning a second look at all partitions.
 */
export function edgeEvent(which: 'first' | 'last', { run, where }: { run: string; where: string }): string {
  const way = which === 'first' ? 'asc' : 'desc';
  return `(select e.* from (
      select e.commit_seq from run_events e where e.run_id = ${run} and ${where} order by e.commit_seq ${way} limit 1) edge
    join run_events e on e.run_id = ${run} and e.commit_seq = edge.commit_seq and ${where} order by e.seq ${way} limit 1)`;
}
