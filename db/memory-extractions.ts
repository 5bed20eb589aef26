/** Turns that agents learn from: their content, and the outcome. */
import type { StoredBlock } from '../core/content.ts';
import type { TurnInput } from '../core/events.ts';
import type { MemoryOrigin } from '../core/memory/entry.ts';
import type { Whose } from '../core/memory/whose.ts';
import type { RunConfig } from '../core/run-config.ts';
import type { Tx } from './database.ts';
import { STILL_SO } from './memory-entries.ts';
import { userOf } from './memory-indexes.ts';
import { lengthOfVectors } from './memory-models.ts';
import { fetchRows, selectFrom } from './query-builder.ts';
import { edgeEvent } from './run-log.ts';

export interface ExtractionRow {
  turn_id: string;
  run_id: string;
  agent_id: string;
  status: 'due' | 'done';
  attempts: number;
  made_by: 'model' | 'rules' | null;
  added: string[];
  superseded: string[];
  refused: Record<string, number>;
  due_at: Date;
  created_at: Date;
  finished_at: Date | null;
}

const COLUMNS =
  'turn_id, run_id, agent_id, status, attempts, made_by, added, superseded, refused, due_at, created_at, finished_at';

/** A turn with the data for learning. */
export interface LearntTurn {
  turn_id: string;
  run_id: string;
  root_run_id: string;
  workspace_id: string;
  agent_id: string;
  agent_version: string;
  thread_id: string;
  config: RunConfig;
  attempts: number;
  input: TurnInput;
  /** What the user said in it, in order, with events: its first message, and messages during the turn. */
  heard: { seq: number; message: string }[];
  answer: StoredBlock[] | null;
  /** The event that ended it. */
  ended_at: number | null;
  /** Memories given to it. */
  given: { id: string; content: string; trusted: boolean }[];
  /** It has read an untrusted file or tool answer. */
  read_untrusted: boolean;
  /** `recall` has returned untrusted content. */
  recalled_untrusted: boolean;
}

/** A turn still to be learnt from; undefined if that is done, or its run is erased. */
export async function findDueExtraction(tx: Tx, turnId: string): Promise<LearntTurn | undefined> {
  const [row] = await tx.query<LearntTurn>(
    `select x.turn_id, x.run_id, r.root_run_id, r.workspace_id, r.agent_id, r.agent_version, r.thread_id, r.config, x.attempts,
        u.input, m.content as answer,
        (select coalesce(jsonb_agg(jsonb_build_object('seq', h.seq, 'message', h.message) order by h.heard), '[]') from (
            select e.seq, e.seq as heard, u.input->>'message' as message from run_events e
             where e.run_id = x.run_id and e.turn_id = x.turn_id and e.type = 'turn.started'
            union all
            select q.seq, e.seq, q.payload->'input'->>'message'
              from (select e.run_id, e.seq, e.payload->>'message_id' as message_id from run_events e
                where e.run_id = x.run_id and e.turn_id = x.turn_id and e.type = 'message.dequeued' and e.payload->>'as' = 'steer' offset 0) e
              join run_events q on q.run_id = e.run_id and q.type = 'message.queued' and q.payload->>'message_id' = e.message_id) h) as heard,
        (select e.seq from ${edgeEvent('last', { run: 'x.run_id', where: "e.turn_id = x.turn_id and e.type = 'turn.completed'" })} e) as ended_at,
        coalesce((select jsonb_agg(g) from run_events e cross join jsonb_array_elements(e.payload->'entries') g
          where e.run_id = x.run_id and e.turn_id = x.turn_id and e.type = 'memory.retrieved'), '[]') as given,
        u.input->'attachments' @> '[{"trust": "untrusted"}]' is true or u.input->>'untrusted' is not null
          or exists (select from tool_calls k where k.run_id = x.run_id and k.turn_id = x.turn_id and k.name <> 'recall'
            and (k.trust = 'untrusted' and k.output is not null or k.tainted_by is not null)) as read_untrusted,
        exists (select from tool_calls k where k.run_id = x.run_id and k.turn_id = x.turn_id and k.name = 'recall'
          and k.output->'entries' @> '[{"trusted": false}]') as recalled_untrusted
      from memory_extractions x join runs r on r.id = x.run_id and r.erased_at is null
      join turns u on u.run_id = x.run_id and u.id = x.turn_id
      left join messages m on m.lineage = r.lineage and m.ordinal = u.output_ordinal
     where x.turn_id = $1 and x.status = 'due'`,
    [turnId],
  );
  return row;
}

/** The newest live entries said by users that concern `whose` (`concerns`): a turn may correct them without sharing a word. */
export async function listNewestSaid(
  tx: Tx,
  of: { agentId: string; whose: Whose; limit: number },
): Promise<{ id: string; content: string; origin: MemoryOrigin }[]> {
  const newest = `select id, content, origin from memory_entries
    where agent_id = $1 and origin = 'user' and status in ('active', 'disputed') and memory_type <> 'SHORT_TERM'`;
  const { userId, isApart } = of.whose;
  const user = await userOf(tx);
  if (userId === undefined) {
    const nobodys = isApart ? `and ${user} is null` : '';
    return tx.query(`${newest} ${nobodys} order by id desc limit $2`, [of.agentId, of.limit]);
  }
  const own = `${newest} and ${user} = $3 order by id desc limit $2`;
  if (isApart) return tx.query(own, [of.agentId, of.limit, userId]);
  // One after the other, so that an index leads to those of each.
  return tx.query(
    `(${own}) union all (${newest} and ${user} is null order by id desc limit $2)
     order by id desc limit $2`,
    [of.agentId, of.limit, userId],
  );
}

/** Where a call was requested: its turn and event, and whether untrusted content had been read before. */
export async function findCallPlace(
  tx: Tx,
  of: { runId: string; callId: string },
): Promise<{ turn_id: string; seq: number | null; is_tainted: boolean } | undefined> {
  const [row] = await tx.query<{ turn_id: string; seq: number | null; is_tainted: boolean }>(
    `select k.turn_id, k.tainted_by is not null as is_tainted, (select e.seq from
        ${edgeEvent('first', { run: '$1', where: "e.type = 'tool.requested' and e.payload->>'tool_call_id' = $2" })} e) as seq
      from tool_calls k where k.run_id = $1 and k.id = $2::uuid`,
    [of.runId, of.callId],
  );
  return row;
}

/** Locks a turn that is still to be learnt from; false if it is not any more. */
export async function lockExtraction(tx: Tx, turnId: string): Promise<boolean> {
  const rows = await tx.query(
    `select turn_id from memory_extractions where turn_id = $1 and status = 'due' for update`,
    [turnId],
  );
  return rows.length > 0;
}

/** Stores the outcome. */
export async function finishExtraction(
  tx: Tx,
  turnId: string,
  done: Pick<ExtractionRow, 'added' | 'superseded' | 'refused'> & { made_by: 'model' | 'rules' },
): Promise<void> {
  await tx.query(
    `update memory_extractions set status = 'done', made_by = $2, added = $3::uuid[], superseded = $4::uuid[], refused = $5::jsonb,
        attempts = attempts + 1, finished_at = now() where turn_id = $1`,
    [turnId, done.made_by, done.added, done.superseded, JSON.stringify(done.refused)],
  );
}

/** Postpones learning, since no model was available. */
export async function delayExtraction(tx: Tx, turnId: string, waitSeconds: number): Promise<void> {
  await tx.query(
    `update memory_extractions set attempts = attempts + 1, due_at = now() + $2 * interval '1 second'
      where turn_id = $1 and status = 'due'`,
    [turnId, waitSeconds],
  );
}

/** A page of an agent's extractions, newest first. */
export async function listExtractions(
  tx: Tx,
  page: { agentId: string; before?: string | undefined; limit: number },
): Promise<ExtractionRow[]> {
  const query = selectFrom(COLUMNS, 'memory_extractions', [
    ['agent_id', '=', page.agentId],
    ['turn_id', '<', page.before],
  ]);
  return fetchRows<ExtractionRow>(tx, query.orderBy('turn_id', 'desc').limit(page.limit));
}

/**
 * For each vector (pgvector's notation), by index: texts of live, still true entries nearly as close as the same text that concern
 * `whose` (`concerns`).
 */
export async function findNearTexts(
  tx: Tx,
  of: { agentId: string; whose: Whose; model: string; vectors: readonly string[]; leastCosine: number },
): Promise<{ place: number; content: string }[]> {
  const { userId, isApart } = of.whose;
  const user = `e.${await userOf(tx)}`;
  const nobodys = isApart ? `and ${user} is null` : '';
  const own = userId === undefined ? nobodys : `and (${user} = $5 ${isApart ? '' : `or ${user} is null`})`;
  return tx.query(
    `select v.place::int - 1 as place, n.content from unnest($3::text[]) with ordinality as v (vector, place) cross join lateral (
        select e.content, e.embedding <=> v.vector::vector as distance from memory_entries e
         where e.agent_id = $1 and e.status in ('active', 'disputed') and ${STILL_SO} ${own}
           and e.embedding_model = case vector_dims(v.vector::vector) when ${lengthOfVectors('$1', '$2')} then $2
             else $2 || '#' || vector_dims(v.vector::vector) end
         order by e.embedding <=> v.vector::vector limit 5) n
      where n.distance <= $4::float8`,
    [of.agentId, of.model, of.vectors, 1 - of.leastCosine, ...(userId === undefined ? [] : [userId])],
  );
}
