/** Whose work a turn is: the keys that asked for it or had a say in it. */
import type { Tx } from './database.ts';
import { edgeEvent } from './run-log.ts';

/**
 * Keys with a say in a turn: those that requested it, steered it, or answered in it or ahead of it. For a run that works for
 * another one: the key that handed over or submitted its task, otherwise those of the last turn of the nearest ancestor whose
 * log names any.
 */
export async function findRequesters(tx: Tx, of: { runId: string; turnId: string }): Promise<string[]> {
  const begun = edgeEvent('last', {
    run: 'a.id',
    where: "e.type = 'turn.started' and (a.height > 0 or e.turn_id = $2)",
  });
  const [row] = await tx.query<{ keys: string[] }>(
    `with recursive above (id, parent_run_id, parent_task_id, height) as (
       select id, parent_run_id, parent_task_id, 0 from runs where id = $1 union all
       select r.id, r.parent_run_id, r.parent_task_id, a.height + 1 from above a join runs r on r.id = a.parent_run_id),
     asked as (
       select a.height, array_remove(said.keys || coalesce(t.payload->>'requested_by',
         (select h.requested_by::text from handoffs h where h.task_id = a.parent_task_id and h.requested_by is not null
            order by h.created_at desc, h.id desc limit 1),
         (select k.requested_by::text from tasks k where k.id = a.parent_task_id)), null) as keys
       from above a left join lateral ${begun} t on true cross join lateral (
         select coalesce(array_agg(distinct s.payload->>'requested_by'), '{}') as keys from run_events s
         where s.run_id = a.id and (s.type = 'message.queued' and s.turn_id = t.turn_id and s.payload->>'mode' = 'steer'
           or s.type = 'signal.received' and (s.turn_id = t.turn_id or s.payload->>'tool_call_id' is null))) said)
     select keys from asked where cardinality(keys) > 0 order by height limit 1`,
    [of.runId, of.turnId],
  );
  return row?.keys ?? [];
}

/** The turn of another run that a turn does again: of a run that is a fork, by a retry or a replay, the first one. */
export async function findTurnRedone(
  tx: Tx,
  of: { runId: string; turnId: string },
): Promise<{ runId: string; turnId: string } | undefined> {
  const rows = await tx.query<{ runId: string; turnId: string }>(
    `select o.run_id as "runId", o.id as "turnId" from turns t join runs r on r.id = t.run_id
       join turns o on o.run_id = r.forked_from_run_id and o.number = t.number
       where t.id = $2 and r.id = $1
         and not exists (select from turns e where e.run_id = r.id and e.number < t.number)`,
    [of.runId, of.turnId],
  );
  return rows[0];
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
  const [column, id] = 'runId' in of ? ['id', of.runId] : ['thread_id', of.threadId];
  const rows = await tx.query(
    `select 1 as asked from runs r join run_events e on e.run_id = r.id
      where r.${column} = $1 and e.type = 'turn.started' and e.payload->>'requested_by' = $2 limit 1`,
    [id, of.keyId],
  );
  return rows.length > 0;
}
