/** Looks for what a process's open streams wait for, in one statement for all; for `asMaintenance`. */
import { TERMINAL } from '../core/events.ts';
import type { Tx } from './database.ts';

/** Ids of what streams watch. */
interface Watched {
  runs: readonly string[];
  threads: readonly string[];
  keys: readonly string[];
}

/**
 * Current positions: of a run the sequence number of its last event, of a thread the number of its newest run, plus one if its
 * session was deleted. `is_over`: the run has ended, or the key is invalid; also for anything that does not exist.
 */
export interface Position {
  kind: 'run' | 'thread' | 'key';
  id: string;
  position: number;
  is_over: boolean;
}

export async function readPositions(tx: Tx, { runs, threads, keys }: Watched): Promise<Position[]> {
  return tx.query<Position>(
    `select 'run' as kind, w.id, coalesce(r.last_seq, 0)::float8 as position, r.id is null or r.status::text = any($4::text[]) as is_over
       from unnest($1::uuid[]) w (id) left join runs r on r.id = w.id
     union all
     select 'thread', w.id, (coalesce(r.thread_place, 0) + case when s.archived_at is null then 0 else 1 end)::float8, d.id is null
       from unnest($2::uuid[]) w (id) left join threads d on d.id = w.id
         left join runs r on r.id = d.head_run_id left join sessions s on s.id = d.id
     union all
     select 'key', w.id, 0, k.id is null or k.revoked_at is not null or coalesce(k.expires_at <= clock_timestamp(), false)
       from unnest($3::uuid[]) w (id) left join api_keys k on k.id = w.id`,
    [[...runs], [...threads], [...keys], [...TERMINAL]],
  );
}
