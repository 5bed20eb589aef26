/**
 * What the first turn of a fork's thread has taken over from the run that it was forked from: the input of the turn, and messages
 * behind the last turn that the thread shows of the other one. Files and calls in it are other threads', and are shown with it.
 */
import type { Tx } from './database.ts';
import { asColumns } from './query-builder.ts';
import { commitUpTo } from './run-log.ts';
import { firstNumber, partsOf } from './thread-parts.ts';

/**
 * Queries for the `parts` of a thread that show such a turn: `begun`, of the blocks of these messages, and `taken`, of files. What
 * is attached to other turns is not among them: whoever may say something could attach any file.
 */
export const TAKEN_OVER = `forks as (
    select r.*, coalesce((r.lineage_base->-1->>'length')::int, 0) as shared from parts p join runs r on r.thread_id = p.thread_id
      where r.thread_place = 1 and r.forked_from_run_id is not null and r.erased_at is null
        and (p.place > 1 or p.place = 1 and p.before > ${firstNumber('r.id')})),
  begun as materialized (
    select b.block->>'type' as type, b.block->>'file_id' as file_id, call.id as call_id from forks f
      cross join lateral (select coalesce((select u.output_ordinal + 1 from turns u
        where u.run_id = f.forked_from_run_id and u.output_ordinal < f.shared order by u.number desc limit 1), 0) as length offset 0) before
      cross join lateral (select (s->>'lineage')::uuid as lineage, (s->>'length')::int as upto, lag((s->>'length')::int, 1, 0) over (order by place) as since
        from jsonb_array_elements(f.lineage_base || jsonb_build_array(jsonb_build_object('lineage', f.lineage, 'length', f.base_length)))
          with ordinality as list (s, place) offset 0) g
      join messages m on m.lineage = g.lineage and m.ordinal >= greatest(g.since, before.length) and m.ordinal < g.upto and m.role = 'user'
      cross join lateral jsonb_array_elements(m.content) b (block)
      ${asColumns(`(b.block->>'tool_call_id')::uuid as id`)} call),
  taken as materialized (
    select file.id from (
      select file_id as id from begun where type = 'file'
      union all
      select a.file->>'file_id' from forks f
        join run_events e on e.run_id = f.id and e.commit_seq = (select ${commitUpTo('f.id', '2')}) and e.type in ('turn.started', 'message.queued')
        cross join lateral jsonb_array_elements(coalesce(e.payload->'input'->'attachments', '[]')) a (file) where a.file->>'type' = 'file'
      union all
      select e.payload->>'file_id' from begun b join tool_calls k on k.id = b.call_id join turns t on t.id = k.turn_id
        join run_events e on e.run_id = k.run_id and e.commit_seq >= coalesce(t.started_seq, 0)
          and e.type = 'file.stored' and e.payload->>'tool_call_id' = k.id::text) found
      ${asColumns('found.id::uuid as id')} file)`;

/** Whether a call is of a thread's runs, or of what a fork's thread shows of others. */
export async function isCallOfThread(tx: Tx, { id, threadId }: { id: string; threadId: string }): Promise<boolean> {
  const rows = await tx.query(
    `with recursive ${partsOf({ thread: '$2', key: 'null' })}, ${TAKEN_OVER}
     select 1 from tool_calls k join turns t on t.id = k.turn_id join runs r on r.id = k.run_id
      where k.id = $1 and (exists (select from parts p where p.thread_id = r.thread_id
          and (r.thread_place < p.place or r.thread_place = p.place and t.number < p.before))
        or exists (select from begun b where b.call_id = k.id))`,
    [id, threadId],
  );
  return rows.length > 0;
}
