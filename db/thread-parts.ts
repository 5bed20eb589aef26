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
      where n.forks < ${MOST_FORKS} and (${key}::text is null or ${hasAsked('r.thread_id = p.thread_id', key)}))`;

/**
 * What a thread that begins with a fork shows of the other run's thread; no row for any other. A client may have put other messages
 * in the place of the conversation's end: then its turns end with the last one whose answer is among the first `length`
 * messages, which may be on a thread farther back. What an erased fork stood on, later runs of its thread do not have.
 */
const partBehind = (thread: string, length: string) => `(select o.thread_id,
    case when kept.length is null then o.thread_place else coalesce(answered.place, 0) end as place,
    case when kept.length is null then told.turns + 1 else coalesce(answered.number + 1, 0) end as before,
    case when answered.place is null then kept.length end as length
  from runs f join runs o on o.id = f.forked_from_run_id
    cross join lateral (select (e.payload->>'turn_count')::int as turns, e.payload->'modified' ? 'messages' as are_given from run_events e
      where e.run_id = f.id and e.commit_seq = (select ${commitUpTo('f.id', '2')}) and e.seq = 2 and e.type = 'run.forked' offset 0) told
    ${asColumns(`least(${length}, case when told.are_given then ${SHARED} end) as length`)} kept
    left join lateral (select b.thread_place as place, u.number
      from (select b.id, b.thread_place from runs b where b.thread_id = o.thread_id and b.thread_place <= o.thread_place order by b.thread_place desc) b
        cross join lateral (select u.number from turns u
          where u.run_id = b.id and (b.id <> o.id or u.number <= told.turns) and u.output_ordinal < kept.length order by u.number desc limit 1) u
      where kept.length is not null order by b.thread_place desc limit 1) answered on true
  where f.thread_id = ${thread} and f.thread_place = 1 and f.erased_at is null offset 0)`;

/** That a thread begins with a fork, and so may show parts of others. What it shows is planned only then, for all partitions of the log. */
export const beginsWithFork = (thread: string) =>
  `exists (select from runs f where f.thread_id = ${thread} and f.thread_place = 1 and f.forked_from_run_id is not null)`;

/** The parts of a thread that does not. */
export const partsOfItself = (thread: string) =>
  `parts (thread_id, forks, place, before) as (values (${thread}::uuid, 0, ${WHOLE}, ${WHOLE}))`;

/** How many of its first messages a fork shares with the other run. */
const SHARED = `coalesce((f.lineage_base->-1->>'length')::int, 0)`;

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

/** The turns of other threads with which a thread's conversation begins. */
export interface Beginning {
  turns: number;
  /** The last of them. */
  lastTurnId: string | undefined;
}

interface BeginningPart {
  of_thread: string;
  of_length: number | null;
  thread_id: string;
  length: number | null;
  turns: number;
  last_turn_id: string | null;
}

/** How the conversations of these threads begin that begin with a fork. What several of them go back to is read once. */
export async function readBeginnings(tx: Tx, threadIds: readonly string[]): Promise<ReadonlyMap<string, Beginning>> {
  const forked = await tx.query<{ id: string }>(
    `select c.id from unnest($1::uuid[]) c (id) where ${beginsWithFork('c.id')}`,
    [threadIds],
  );
  const beginnings = new Map<string, Beginning>();
  if (forked.length === 0) return beginnings;
  const parts = await tx.query<BeginningPart>(
    `with recursive behind (of_thread, of_length, thread_id, place, before, length) as (
       select c.id, null::int, p.* from unnest($1::uuid[]) c (id) cross join lateral ${partBehind('c.id', 'null::int')} p
       union
       select n.thread_id, n.length, p.* from behind n cross join lateral ${partBehind('n.thread_id', 'n.length')} p)
     select p.of_thread, p.of_length, p.thread_id, p.length, ${TURNS_OF_PART} as turns, (select t.id from ${newestOf('1')} t) as last_turn_id
       from behind p left join runs o on o.thread_id = p.thread_id and o.thread_place = p.place`,
    [forked.map(({ id }) => id)],
  );
  const keyOf = (thread: string, length: number | null) => `${thread} ${length}`;
  const behind = new Map(parts.map((part) => [keyOf(part.of_thread, part.of_length), part]));
  for (const { id } of forked) {
    const line: BeginningPart[] = [];
    for (let part = behind.get(keyOf(id, null)); part; part = behind.get(keyOf(part.thread_id, part.length)))
      line.push(part);
    const turns = line.reduce((sum, part) => sum + part.turns, 0);
    const last = line.find((part) => part.last_turn_id !== null)?.last_turn_id ?? undefined;
    if (line.length > 0) beginnings.set(id, { turns, lastTurnId: last });
  }
  return beginnings;
}

/** Of a run, whose turns need not begin with 1. */
export const firstNumber = (run: string) => `(select min(f.number) from turns f where f.run_id = ${run})`;

/** How many turns more than one a run `b` of these has had; every other run has had one, which its place counts. */
export const TURNS_MORE = `coalesce(b.turn_count - ${firstNumber('b.id')}, -1)`;
export const IS_COUNTED_APART = `(b.turn_count <> 1 or b.forked_from_run_id is not null)`;

/** How many turns a part `p` has, that ends in the run `o`. */
const TURNS_OF_PART = `(case when p.place = 0 then 0 else p.place + p.before - 1 - coalesce(${firstNumber('o.id')}, o.turn_count + 1)
  + coalesce((select sum(${TURNS_MORE}) from runs b where b.thread_id = p.thread_id and b.thread_place < p.place and ${IS_COUNTED_APART}), 0) end)::int`;
