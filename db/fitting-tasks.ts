/** The tasks of a workflow that are shown with it. */
import { LIMITS } from '../core/limits.ts';
import type { Tx } from './database.ts';
import { TASK_BYTES, TASK_HEAD, TASKS, type TaskRow } from './tasks.ts';

/** A task beside the others of its workflow. */
export interface TaskOfWorkflow extends TaskRow {
  /** Bytes of its description, input, requirements and output, if these are left out; else null. */
  left_out_bytes: number | null;
}

/** The tasks of a workflow in plan order, as they fit on a page: the largest are without content. */
export async function listFittingTasks(tx: Tx, workflowId: string): Promise<TaskOfWorkflow[]> {
  const sized = `select t.id, t.place, ${TASK_BYTES} from ${TASKS} where t.workflow_id = $1 offset 0`;
  return tx.query<TaskOfWorkflow>(
    `select ${TASK_HEAD}, case when f.fits then t.description else '' end as description, case when f.fits then t.input end as input,
       case when f.fits then t.requirements else '{}' end as requirements, case when f.fits then m.content end as output,
       case when not f.fits then f.bytes::float8 end as left_out_bytes
     from ${TASKS} join (select s.id, s.bytes, sum(s.bytes) over (order by s.bytes, s.place, s.id) <= ${LIMITS.eventsPageBytes} as fits
       from (${sized}) s) f on f.id = t.id
     where t.workflow_id = $1 order by t.place, t.id`,
    [workflowId],
  );
}
