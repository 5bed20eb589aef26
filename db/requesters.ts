/** Whose work a turn is: the keys that asked for it or had a say in it. */
import type { Tx } from './database.ts';
import { edgeEvent } from './run-log.ts';

/** Events with which a key had a say in a turn: it asked, steered, answered, or decided in words that the model reads. */
const SAID = `(e.type = 'turn.started' or e.type = 'signal.received' or e.type = 'message.queued' and e.payload->>'mode' = 'steer'
    or e.type = 'approval.denied' and e.payload ? 'reason' or e.type = 'approval.granted' and e.payload->'edited' = 'true'
    or e.type = 'approval.settled' and e.payload->>'decision' = 'happened')`;
const KEY = `coalesce(e.payload->>'requested_by', e.payload->>'decided_by')`;

/** How many turns behind a turn are looked through. */
const MOST_TURNS = 200;

/**
 * Keys with a say in a turn, or in a turn that it works for or does again: up to a task that somebody submitted; and in what
 * works for one of these turns, except for other subtasks of a workflow.
 */
export async function findRequesters(tx: Tx, of: { runId: string; turnId: string }): Promise<string[]> {
  const rows = await tx.query<{ key: string }>(
    `with recursive line (run_id, turn_id, place) as (
       select $1::uuid, $2::uuid, 0 union
       select o.run_id, o.turn_id, l.place + 1 from line l join runs r on r.id = l.run_id cross join lateral (
         (select t.run_id, t.id as turn_id from turns t where t.run_id = r.parent_run_id
            and not exists (select from tasks k where k.id = r.parent_task_id and k.requested_by is not null)
            order by t.number desc limit 1)
         union all
         (select b.run_id, b.id from turns t join turns b on b.run_id = r.forked_from_run_id and b.number = t.number
            where t.id = l.turn_id and not exists (select from turns e where e.run_id = r.id and e.number < t.number))) o
       where l.place < ${MOST_TURNS}),
     below (run_id) as (
       select d.id from line l join turns t on t.id = l.turn_id join runs r on r.id = l.run_id and r.kind = 'agent'
         join runs d on d.parent_run_id = l.run_id and d.created_at >= t.created_at
       union select d.id from below b join runs d on d.parent_run_id = b.run_id)
     select ${KEY} as key from line l join run_events e on e.run_id = l.run_id and ${SAID}
       and (e.turn_id = l.turn_id or e.type = 'signal.received' and e.payload->>'type' <> 'tool_results' and e.payload->>'tool_call_id' is null)
     union select ${KEY} from below b join run_events e on e.run_id = b.run_id and ${SAID}
     union select k.requested_by::text from line l join runs r on r.id = l.run_id join tasks k on k.id = r.parent_task_id
     union select h.requested_by::text from line l join runs r on r.id = l.run_id join handoffs h on h.task_id = r.parent_task_id`,
    [of.runId, of.turnId],
  );
  return rows.flatMap(({ key }) => key ?? []);
}

/** The key that requested a run's last turn. */
export async function findRequester(tx: Tx, runId: string): Promise<string | null> {
  const [row] = await tx.query<{ key: string | null }>(
    `select payload->>'requested_by' as key from ${edgeEvent('last', { run: '$1', where: "e.type = 'turn.started'" })} e`,
    [runId],
  );
  return row?.key ?? null;
}

/** Whether a key has requested a turn of a run, or of any run of a thread. */
export async function hasAskedFor(
  tx: Tx,
  of: { runId: string; keyId: string } | { threadId: string; keyId: string },
): Promise<boolean> {
  const condition = 'runId' in of ? 'r.id = $1' : 'r.thread_id = $1';
  const id = 'runId' in of ? of.runId : of.threadId;
  const rows = await tx.query(`select 1 as asked where ${hasAsked(condition, '$2')}`, [id, of.keyId]);
  return rows.length > 0;
}

/** That a key has requested a turn of one of the runs `r`. */
export const hasAsked = (runs: string, key: string) => `exists (select from runs r join run_events e on e.run_id = r.id
  where ${runs} and e.type = 'turn.started' and e.payload->>'requested_by' = ${key}::text)`;
