/** What users have said to turns that were open. */
import type { NewEvent } from '../core/events.ts';
import type { Tx } from './database.ts';

/** A message that a turn has read on its way, and its place in the conversation. */
interface SteeringMessage {
  message: Extract<NewEvent, { type: 'message.queued' }>['payload'];
  read_at: number;
}

/**
 * What a turn of a run has read on its way after its conversation had so many messages, in that order; where the run is a fork, also
 * what it was still to read again.
 */
export function listSteering(
  tx: Tx,
  of: { runId: string; turnId: string; length: number },
): Promise<SteeringMessage[]> {
  return tx.query<SteeringMessage>(
    `with told as (
       select type, seq, turn_id, payload, payload->>'message_id' as id, (payload->>'length')::int as length, (payload->>'read_at')::int as read_at
       from run_events where run_id = $1 and type in ('message.queued', 'message.dequeued'))
     select q.payload as message, coalesce(d.length - 1, q.read_at) as read_at
     from told q left join told d on d.type = 'message.dequeued' and d.id = q.id and d.length is not null
     where q.type = 'message.queued' and case when d.id is null then q.turn_id = $2 and q.read_at is not null
       else d.turn_id = $2 and d.length > $3 end
     order by 2, q.seq`,
    [of.runId, of.turnId, of.length],
  );
}
