/** Messages on a session's thread: from people and models, and questions of agents in the middle of a turn. */
import { LIMITS } from '../core/limits.ts';
import { ASK_USER_TOOL } from '../core/tool.ts';
import type { Tx } from './database.ts';
import { writesOfHandoff } from './handoffs.ts';
import { asColumns } from './query-builder.ts';
import { commitUpTo, edgeEvent } from './run-log.ts';

export interface SessionMessage {
  role: 'user' | 'assistant';
  content: string;
  /** Of what is the user's by its role: who has said it in truth. */
  origin?: 'drover';
}

interface Reach {
  limit: number;
  window: number;
}

/**
 * The last messages of a run, oldest first: text only, at most `limit`. Searches the last `window` messages of the
 * conversation, whatever its length.
 */
export async function lastMessages(tx: Tx, runId: string, { limit, window }: Reach): Promise<SessionMessage[]> {
  // Most messages contain text, so a smaller window is tried first.
  const near = Math.min(window, 4 * limit);
  const found = await messagesAtEnd(tx, runId, { limit, window: near });
  return found.length < limit && near < window ? messagesAtEnd(tx, runId, { limit, window }) : found;
}

/** A person's answer as text. */
const textIn = (answer: string) => `case when jsonb_typeof(${answer}->'message') = 'string' then ${answer}->>'message'
  when jsonb_typeof(${answer}) = 'string' then ${answer} #>> '{}' when jsonb_typeof(${answer}) <> 'null' then ${answer}::text end`;

/** The answer to a call that has not read it yet: its wait is already closed. */
const UNREAD_ANSWER = `(select e.payload->'payload' from waits w cross join lateral ${edgeEvent('last', {
  run: 'k.run_id',
  where: `e.type = 'signal.received' and e.payload->>'tool_call_id' = k.id::text`,
})} e where w.id = k.id and w.closed_at is not null and k.status in ('pending', 'running'))`;

/** Question and answer of an `ask_user` call that has asked, and is not still waiting for approval. */
const ASKED = `select 1 as part, 'assistant' as role, k.arguments->>'question' as content
    where k.name = '${ASK_USER_TOOL}' and k.origin is distinct from 'tool' and k.started_at is not null
  union all select 2, 'user', ${textIn('a.answer')} from (
    select case k.status when 'succeeded' then k.output else ${UNREAD_ANSWER} end as answer offset 0) a
    where k.name = '${ASK_USER_TOOL}' and k.origin is distinct from 'tool' and k.started_at is not null`;

/**
 * Questions of a remote agent during a call, and their answers, from the log of the call's turn. Such a call gets another
 * attempt after an answer.
 */
const ASKED_ELSEWHERE = `select e.seq, case e.type when 'input.requested' then 'assistant' else 'user' end,
    case e.type when 'input.requested' then e.payload->>'question' else ${textIn(`(e.payload->'payload')`)} end
  from (select t.run_id, t.started_seq as first, ${commitUpTo('t.run_id', 'n.started_seq')} as last_commit
    from turns t left join turns n on n.run_id = t.run_id and n.number = t.number + 1
    where t.id = k.turn_id and k.name <> '${ASK_USER_TOOL}' and (k.attempt > 1 or k.remote is not null) offset 0) u
  join run_events e on e.run_id = u.run_id and e.commit_seq >= u.first and e.commit_seq <= u.last_commit
    and e.type in ('input.requested', 'signal.received') and e.payload->>'tool_call_id' = k.id::text`;

/** Whether a message `m` is the first one of a run, and tells it of a handoff. */
const TELLS_OF_HANDOFF = `m.role = 'user' and m.ordinal = (select b.base_length from runs b where b.id = m.run_id)
  and ${writesOfHandoff('m.run_id')}`;

/** What a message `m` says, in order. A call stands where its result does: what it has asked comes after the words that it came with. */
const SAID = `select jsonb_agg(jsonb_strip_nulls(jsonb_build_object('role', s.role, 'content', s.content, 'origin', s.origin)) order by s.place, s.part) as said from (
    select 0 as place, 0 as part, m.role::text as role, string_agg(b->>'text', '' order by place) as content,
        case when ${TELLS_OF_HANDOFF} then 'drover' end as origin
      from jsonb_array_elements(m.content) with ordinality as blocks (b, place)
      where b->>'type' = 'text' and m.origin is distinct from 'drover'
    union all
    select c.place, q.part, q.role, q.content, null
      from jsonb_array_elements(m.content) with ordinality as blocks (b, place)
        ${asColumns(`blocks.place, (b->>'tool_call_id')::uuid as call`)} c
        join tool_calls k on k.id = c.call
        cross join lateral (${ASKED} union all ${ASKED_ELSEWHERE}) q) s
  where s.content <> ''`;

async function messagesAtEnd(tx: Tx, runId: string, { limit, window }: Reach): Promise<SessionMessage[]> {
  const rows = await tx.query<Omit<SessionMessage, 'origin'> & { origin: 'drover' | null }>(
    `with run as (select lineage, length, lineage_base from runs where id = $1),
      segments as (
        select (segment->>'lineage')::uuid as lineage, (segment->>'length')::int as until,
          greatest(coalesce(lag((segment->>'length')::int) over (order by place), 0), run.length - $3::int) as since
        from run, jsonb_array_elements(run.lineage_base || jsonb_build_array(
          jsonb_build_object('lineage', run.lineage, 'length', run.length))) with ordinality as list (segment, place)),
      last as (select found.ordinal, found.said from segments g
       cross join lateral (
         select m.ordinal, t.said from messages m cross join lateral (${SAID}) t
           where m.lineage = g.lineage and m.ordinal >= g.since and m.ordinal < g.until and t.said is not null
           order by m.ordinal desc limit $2) found
       where g.since < g.until order by found.ordinal desc limit $2),
      single as (select ordinal, place, one->>'role' as role, one->>'content' as content, one->>'origin' as origin
        from last cross join lateral jsonb_array_elements(said) with ordinality as list (one, place)
        order by ordinal desc, place desc limit $2)
     select role, content, origin from (select *, sum(octet_length(content)) over (order by ordinal desc, place desc
         rows between unbounded preceding and 1 preceding) as later from single) sized
       where coalesce(later, 0) < $4 order by ordinal desc, place desc`,
    [runId, limit, window, LIMITS.eventsPageBytes],
  );
  return rows.toReversed().map(({ origin, ...said }) => (origin === null ? said : { ...said, origin }));
}
