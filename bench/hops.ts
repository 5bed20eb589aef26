/** Where a workflow's time goes, by its events' database times: before, within, between and after its subtasks. */
import { DEFAULT_TENANT_ID } from '../modules/tenants/bootstrap.ts';
import type { Context } from '../modules/governance/context.ts';

/** Times of one workflow in ms; all but `tasks` are overhead beyond its subtasks. */
export interface Hops {
  /** Until the first subtask's model was called. */
  head: number;
  /** For each subtask with dependencies and a free slot: from the end of its last dependency to its model call. */
  between: number[];
  /** For each subtask: time from its model call to its end, beyond its own duration. */
  within: number[];
  /** From the end of the last subtask to the end of the workflow. */
  tail: number;
  /** From the first call to the last end: only the subtasks. */
  tasks: number;
}

interface Row {
  id: string;
  dependencies: string[];
  ms: number;
  began: number;
  ended: number;
}

/** Reads the hops of a completed workflow. */
export async function readHops(context: Context, id: string, slots: number): Promise<Hops> {
  return context.db.withTenant(DEFAULT_TENANT_ID, async (tx) => {
    const [whole] = await tx.query<{ began: number; ended: number }>(
      `select ${MS('created_at')} as began, ${MS('completed_at')} as ended from runs where id = $1`,
      [id],
    );
    const rows = await tx.query<Row>(
      `select t.id, t.dependencies, substring(t.description from '\\d+')::int as ms, ${MS('r.completed_at')} as ended,
         (select ${MS('e.occurred_at')} from run_events e where e.run_id = r.id and e.type = 'model.called' order by e.seq limit 1) as began
       from tasks t join runs r on r.id = t.run_id where t.workflow_id = $1`,
      [id],
    );
    if (!whole) throw new Error('there is no such workflow');
    const first = Math.min(...rows.map(({ began }) => began));
    const last = Math.max(...rows.map(({ ended }) => ended));
    return {
      head: first - whole.began,
      between: betweenOf(rows, slots),
      within: rows.map(({ began, ended, ms }) => ended - began - ms),
      tail: whole.ended - last,
      tasks: last - first,
    };
  });
}

const MS = (column: string) => `extract(epoch from ${column})::float8 * 1000`;

function betweenOf(rows: readonly Row[], slots: number): number[] {
  const ends = new Map(rows.map(({ id, ended }) => [id, ended]));
  return rows.flatMap(({ dependencies, began }) => {
    if (dependencies.length === 0) return [];
    const ready = Math.max(...dependencies.map((dependency) => ends.get(dependency) ?? 0));
    const atWork = rows.filter((other) => other.began < began && other.ended > ready);
    return atWork.length < slots ? [began - ready] : [];
  });
}
