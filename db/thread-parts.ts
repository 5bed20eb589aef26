/**
 * The parts of a thread's conversation: the thread, and what it shows of the one that it was forked from, and so on. Messages are
 * not copied, so a fork shows the other threads' turns, up to the last one whose messages it has.
 */
import type { Tx } from './database.ts';
import { asColumns } from './query-builder.ts';
import { hasAsked } from './requesters.ts';
import { commitUpTo } from './run-log.ts';

/** The most forks that a thread is followed back through: each costs every page that goes beyond it. */
const MOST_FORKS = 1000;

const WHOLE = 2_147_483_647;

/** Parameters that texts of SQL refer to. */
interface PartsOf {
  thread: string;
  /** A key that may read only threads on which it has asked for a turn; null for whoever may read more. */
  key: string;
}

/**
 * A recursive query `parts`, nearest first. Each is so many `forks` back and ends in the run at `place` of its thread: before that
 * run's turn number `before`.
 */
export const partsOf = ({ thread, key }: PartsOf) => `parts (thread_id, forks, place, before, length) as (
    select ${thread}::uuid, 0, ${WHOLE}, ${WHOLE}, null::int
    union all
    select p.thread_id, n.forks + 1, p.place, p.before, p.length from parts n
      cross join lateral ${partBehind('n.thread_id', 'n.length')} p
      where n.forks < ${MOST_FORKS} and n.length is distinct from 0 and (${key}::text is null or ${hasAsked('r.thread_id = p.thread_id', key)}))`;

/**
 * What a thread that begins with a fork shows of the other run's thread; no row for any other. A client may have put other messages
 * in the place of the conversation's end: then its turns end with the last one whose answer is among the first `length`
 * messages, which may be on a thread farther back.
 */
export const partBehind = (thread: string, length: string) => `(select g.thread_id,
    case when kept.length is null then g.place else coalesce(answered.place, 0) end as place,
    case when kept.length is null then g.turns + 1 else coalesce(answered.number + 1, 0) end as before,
    case when answered.place is null then kept.length end as length
  from ${originOf(thread)} g
    ${asColumns(`least(${length}, case when g.are_given then g.shared end) as length`)} kept
    left join lateral (select a.place, a.number
      from (select ${PLACE_OF_MESSAGE} as place where kept.length > ${SHARED_BEFORE} offset 0) last
        cross join lateral (select b.thread_place as place, u.number
          from (select b.id, b.thread_place from runs b where b.thread_id = g.thread_id and b.thread_place <= last.place
            order by b.thread_place desc) b
            cross join lateral (select u.number from turns u
              where u.run_id = b.id and (b.thread_place <> g.place or u.number <= g.turns) and u.output_ordinal < kept.length
              order by u.number desc limit 1) u
          order by b.thread_place desc limit 1) a) answered on true)`;

/** How many of its first messages a fork shares with the other run. */
const SHARED = `coalesce((f.lineage_base->-1->>'length')::int, 0)`;

/**
 * Of a thread that begins with a fork, the other run's thread and place there, its `turns` before the point, the messages that are
 * `shared` with it, and whether a client has given others; no row for any other. A replayed workflow stands on what was said
 * before the other's only turn, and has no event that tells. What an erased fork stood on, later runs of its thread do not have.
 */
export const originOf = (thread: string) => `(select o.thread_id, o.thread_place as place, told.turns, told.are_given,
    ${SHARED} as shared, f.lineage_base
  from runs f join runs o on o.id = f.forked_from_run_id
    cross join lateral (select (e.payload->>'turn_count')::int as turns, e.payload->'modified' ? 'messages' as are_given from run_events e
        where e.run_id = f.id and e.commit_seq = (select ${commitUpTo('f.id', '2')}) and e.seq = 2 and e.type = 'run.forked'
      union all select 0, false where f.kind = 'workflow' offset 0) told
  where f.thread_id = ${thread} and f.thread_place = 1 and f.erased_at is null offset 0)`;

/**
 * The run that has written the last message kept: behind it no turn has its answer among these, so the search begins there. Each
 * step is a query of its own, since joined they might read the whole thread.
 */
const PLACE_OF_MESSAGE = `coalesce((select w.thread_place
    from (select (select m.run_id from messages m where m.lineage = s.lineage and m.ordinal = s.ordinal) as id
        from (select (jsonb_path_query_first(g.lineage_base, '$[*] ? (@.length >= $kept)', jsonb_build_object('kept', l.kept))->>'lineage')::uuid as lineage,
            l.kept - 1 as ordinal from (select least(kept.length, g.shared) as kept) l offset 0) s offset 0) written
      cross join lateral (select w.thread_id, w.thread_place from runs w where w.id = written.id offset 0) w
    where w.thread_id = g.thread_id and w.thread_place <= g.place), g.place)`;

/** How many messages the conversation of the other's thread has of threads farther back; all its answers are behind them. */
const SHARED_BEFORE = `coalesce((select ${SHARED} from runs f where f.thread_id = g.thread_id and f.thread_place = 1 and f.erased_at is null), 0)`;

/** That a thread begins with a fork, and so may show parts of others. What it shows is planned only then, for all partitions of the log. */
export const beginsWithFork = (thread: string) =>
  `exists (select from runs f where f.thread_id = ${thread} and f.thread_place = 1 and f.forked_from_run_id is not null)`;

/** The parts of a thread that does not. */
export const partsOfItself = (thread: string) =>
  `parts (thread_id, forks, place, before) as (values (${thread}::uuid, 0, ${WHOLE}, ${WHOLE}))`;

/** The newest turns of a part, up to a number of them; `p` has its columns. */
export const newestOf = (limit: string) => `(select t.id, b.thread_place, t.number from (
      select b.id, b.thread_place from runs b
        where b.thread_id = p.thread_id and b.thread_place <= p.place and exists (select from turns o where o.run_id = b.id)
        order by b.thread_place desc limit ${limit} + 1) b
    cross join lateral (
      select t.id, t.number from turns t where t.run_id = b.id and t.number < case when b.thread_place = p.place then p.before else ${WHOLE} end
        order by t.number desc limit ${limit}) t
    order by b.thread_place desc, t.number desc limit ${limit})`;

/** A part of another thread, with which a thread's conversation begins. */
export interface PartOfOther {
  thread_id: string;
  /** The number of the run that it ends in. */
  place: number;
  /** That run's first turn behind the part; null if the part has all its turns. */
  beyond: string | null;
}

/** What a thread shows of others, oldest first; `keyId` as for a page of its conversation. */
export async function listPartsOfOthers(tx: Tx, threadId: string, keyId?: string): Promise<PartOfOther[]> {
  return tx.query<PartOfOther>(
    `with recursive ${partsOf({ thread: '$1', key: '$2' })}
     select p.thread_id, p.place, (select t.id from turns t where t.run_id = o.id and t.number >= p.before order by t.number limit 1) as beyond
       from parts p left join runs o on o.thread_id = p.thread_id and o.thread_place = p.place where p.forks > 0 order by p.forks desc`,
    [threadId, keyId ?? null],
  );
}

/** Of a run, whose turns need not begin with 1 if it is a fork. */
export const firstNumber = (run: string) => `(select min(f.number) from turns f where f.run_id = ${run})`;

/** How many turns more than one a run `b` has had that is counted apart; every other run has had one, which its place counts. */
const TURNS_MORE = `case when b.forked_from_run_id is null then b.turn_count - 1 else coalesce(b.turn_count - ${firstNumber('b.id')}, -1) end`;

/**
 * For places of threads in a relation (`thread_id`, `thread_place`), how many turns `more` than their runs the threads have had before
 * them. The runs counted apart of each thread are read once, however many places of it there are.
 */
export const turnsMoreBefore = (places: string) =>
  `(select thread_id, thread_place, more from (
      select thread_id, thread_place, bool_or(is_asked) as is_asked,
          sum(sum(more)) over (partition by thread_id order by thread_place rows between unbounded preceding and 1 preceding) as more
        from (select thread_id, thread_place, true as is_asked, 0 as more from ${places}
          union all
          select p.thread_id, b.thread_place, false, ${TURNS_MORE}
            from (select thread_id, max(thread_place) as place from ${places} group by thread_id) p
              cross join lateral (select b.id, b.thread_place, b.turn_count, b.forked_from_run_id from runs b
                where b.thread_id = p.thread_id and b.thread_place < p.place
                  and (b.turn_count <> 1 or b.forked_from_run_id is not null) offset 0) b) counted
        group by thread_id, thread_place) summed where is_asked)`;
