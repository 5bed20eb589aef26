/** What turns hold: their messages, answers, files and steps, each found between the ends of the turn in its run's log. */
import type { TokenUsage } from '../core/model.ts';
import type { Tx } from './database.ts';
import { beginsWithHandoff, writesOfHandoff } from './handoffs.ts';
import { asColumns } from './query-builder.ts';
import { commitUpTo, MOST_EVENTS_LATE } from './run-log.ts';

/**
 * The events of turns, each up to the start of the run's next turn; turns of older builds do not store their start. Bounds are
 * columns, so that an index can be searched (`asColumns`). The index has the ends of commits, so each bound comes with its
 * commit's.
 */
const TURN_EVENTS = `(select u.*, ${commitUpTo('u.run_id', 'u.before')} as commit_before, ${commitUpTo('u.run_id', 'u.ended')} as last_commit
  from (select u.*, u.first - 1 as before, u.beyond - 1 as ended from (select u.id, u.run_id, u.number,
      coalesce(u.started_seq, (select min(s.seq) from run_events s where s.run_id = u.run_id and s.turn_id = u.id and s.type = 'turn.started')) as first,
      coalesce(n.started_seq, (select min(s.seq) from run_events s where s.run_id = n.run_id and s.turn_id = n.id and s.type = 'turn.started'),
        9223372036854775807) as beyond
    from turns u ${asColumns('u.number + 1 as number')} following
      left join turns n on n.run_id = u.run_id and n.number = following.number where u.id = any($1::uuid[]) offset 0) u offset 0) u offset 0) u`;

/** Condition: event `e` belongs to the turn. */
const IN_TURN = `e.run_id = u.run_id and e.seq >= u.first and e.seq < u.beyond and e.commit_seq >= u.first and e.commit_seq <= u.last_commit`;

/** Condition: event `e` tells the length of its conversation. */
const TELLS_LENGTH = `e.type in ('model.called', 'model.responded', 'message.dequeued', 'answer.rejected', 'reflection.completed', 'workflow.concluded', 'node.entered', 'node.completed')
    and e.payload->'tool' is null and (e.type <> 'message.dequeued' or e.payload ? 'length')`;

/** The length of a conversation before a position, from the last event that tells it, up to the end of a commit. */
const lengthBefore = (position: string, commit: string) => `(select case
    when e.type = 'model.responded' then (e.payload->>'ordinal')::int + case when (e.payload->>'tool_calls')::int > 0 then 2 else 1 end
    else (e.payload->>'length')::int end as length
  from run_events e where e.run_id = u.run_id and e.seq < ${position} and e.commit_seq <= ${commit} and ${TELLS_LENGTH}
    order by e.commit_seq desc, e.seq desc limit 1)`;

/** First and last message of each turn in its run's conversation; null if no model has read it. */
export async function listTurnMessages(
  tx: Tx,
  turnIds: readonly string[],
): Promise<{ turn_id: string; from: number | null; to: number | null }[]> {
  return tx.query(
    `select u.id as turn_id, ${lengthBefore('u.first', 'u.commit_before')} as "from",
       ${lengthBefore('u.beyond', 'u.last_commit')} as "to" from ${TURN_EVENTS}`,
    [turnIds],
  );
}

/**
 * Those of these turns whose input is Drover's, and tells of a handoff. `isWritten`: it is among their own messages, not
 * those of a run that theirs was forked from.
 */
export async function findHandedTurns(
  tx: Tx,
  turnIds: readonly string[],
): Promise<ReadonlyMap<string, { isWritten: boolean }>> {
  const rows = await tx.query<{ id: string; is_written: boolean }>(
    `select u.id, ${writesOfHandoff('u.run_id')} as is_written from turns u
       where u.id = any($1::uuid[]) and u.number = 1 and ${beginsWithHandoff('u.run_id')}`,
    [turnIds],
  );
  return new Map(rows.map(({ id, is_written: isWritten }) => [id, { isWritten }]));
}

/** Where turns lie in the logs of their runs, as those stand now. */
interface TurnExtent {
  turn_id: string;
  /** Sequence number of its start. */
  start: number;
  /** That after its last one. */
  beyond: number;
  /** The last one of its run. */
  head: number;
  is_open: boolean;
}

export async function listTurnExtents(tx: Tx, turnIds: readonly string[]): Promise<TurnExtent[]> {
  return tx.query(
    `select u.id as turn_id, u.first as start, least(u.beyond, r.last_seq + 1) as beyond, r.last_seq as head,
       coalesce(r.open_turn_id = u.id, false) as is_open
     from ${TURN_EVENTS} join runs r on r.id = u.run_id where u.first is not null`,
    [turnIds],
  );
}

/** A model call of a turn: an answer, or an attempt that was broken off and is paid for. */
export interface TurnModelCall {
  turn_id: string;
  is_answer: boolean;
  /** Absent for what was broken off in logs of older builds. */
  provider?: string;
  model: string;
  usage: TokenUsage;
  cost_usd?: string | null;
  costs?: { input: string; output: string; cache_read: string; cache_write: string };
  long_context?: boolean;
  recorded?: boolean;
}

const BROKEN_OFF = `(e.type in ('model.retried', 'model.failed') and e.payload->'usage' is not null)`;

/** Model calls of these turns that are paid for, including Drover's own, in order. */
export async function listTurnModelCalls(
  tx: Tx,
  turns: readonly { id: string; status: string }[],
): Promise<TurnModelCall[]> {
  const cancelled = turns.filter(({ status }) => status === 'cancelled');
  const [within, late] = await Promise.all([
    readModelCalls(tx, turns, `${IN_TURN} and (e.type = 'model.responded' or ${BROKEN_OFF})`),
    cancelled.length > 0 ? readModelCalls(tx, cancelled, `${AFTER_NEXT} and ${BROKEN_OFF}`) : [],
  ]);
  return [...within, ...late];
}

/** Condition: event `e` came after the run's next turn had begun, no later than what had come of an answer when its turn ended. */
const AFTER_NEXT = `e.run_id = u.run_id and e.commit_seq > u.last_commit
  and e.commit_seq <= least(u.last_commit, 9000000000000000000) + ${MOST_EVENTS_LATE}`;

async function readModelCalls(tx: Tx, turns: readonly { id: string }[], where: string): Promise<TurnModelCall[]> {
  const rows = await tx.query<Pick<TurnModelCall, 'turn_id' | 'is_answer'> & { payload: TurnModelCall }>(
    `select e.turn_id, e.type = 'model.responded' as is_answer, e.payload - 'partial' as payload from ${TURN_EVENTS}
       join run_events e on ${where}
     where e.turn_id = u.id order by e.run_id, e.seq`,
    [turns.map(({ id }) => id)],
  );
  return rows.map(({ payload, ...call }) => ({ ...payload, ...call }));
}

export interface TurnFile {
  turn_id: string;
  step: number | null;
  file_id: string;
  filename: string;
  mime_type: string;
  size: number;
  stored_at: Date;
}

/** Files stored from results of these turns, in order, without those deleted since. */
export async function listTurnFiles(tx: Tx, turnIds: readonly string[]): Promise<TurnFile[]> {
  return tx.query<TurnFile>(
    `select e.turn_id, e.step, f.id as file_id, f.filename, f.mime_type, f.size, e.occurred_at as stored_at
       from ${TURN_EVENTS} join run_events e on ${IN_TURN}
         ${asColumns(`(e.payload->>'file_id')::uuid as file`)} p join files f on f.id = p.file
      where e.turn_id = u.id and e.type = 'file.stored' order by e.run_id, e.seq`,
    [turnIds],
  );
}

const PAID = `(${BROKEN_OFF} or e.type = 'model.responded' and coalesce(e.payload->'recorded', 'false') <> 'true')`;

const ANSWERED = `e.type = 'model.responded' and e.payload->'tool' is null`;

const HAS_CALLS = `e.payload->'tool_calls' > '0'`;

/** A turn with the data that its actions refer to. */
export interface SteppedTurn {
  turn_id: string;
  started_at: Date;
  /** Steps whose answers requested calls, with the answer's ordinal. */
  steps: Record<string, number>;
  /** All its steps, with the event of each answer. */
  answers: Record<string, number>;
  /** By step: estimated tokens of the conversation sent. */
  asked: Record<string, number>;
  /** The event after which the model was asked for a last summary; null if it was not. */
  max_steps_seq: number | null;
  /** Tokens that are paid for, without cached ones: of answers, and of attempts that were broken off. */
  input_tokens: number;
  output_tokens: number;
  /** Files that were stored. */
  files: number;
  /** What its agent learnt from it after its end; null if nothing. */
  learnt: LearntMemories | null;
}

/** Entries that a turn added or corrected, and the number of texts refused by each rule. */
interface LearntMemories {
  made_by: 'model' | 'rules';
  added: string[];
  superseded: string[];
  refused: Record<string, number>;
  finished_at: string;
}

/**
 * Where the model was asked what it last answered with calls, before a position of a log: actions from there on refer to nothing
 * that comes before. At its step limit it is asked without tools, so that limit is not before, either.
 */
export async function findLastAsked(tx: Tx, runId: string, seq: number): Promise<number | undefined> {
  const latest = 'order by e.commit_seq desc, e.seq desc limit 1';
  const [asked] = await tx.query<{ seq: number }>(
    `select asked.seq from (select e.seq, e.commit_seq from run_events e
          where e.run_id = $1 and e.seq < $2 and e.commit_seq <= (select ${commitUpTo('$1', '$2')}) and ${ANSWERED} and ${HAS_CALLS} ${latest}) answer
        cross join lateral (select e.seq from run_events e
          where e.run_id = $1 and e.seq < answer.seq and e.commit_seq <= answer.commit_seq
            and e.type = 'model.called' and e.payload->>'tool_choice' = 'auto' ${latest}) asked`,
    [runId, seq],
  );
  return asked?.seq;
}

/** Events of a run, by sequence number. */
interface Stretch {
  from: number;
  to: number;
}

/** These turns with their steps and totals. `within`: what a turn has there, or up to there if it ended before; totals are of that. */
export async function listSteppedTurns(
  tx: Tx,
  turnIds: readonly string[],
  within: Stretch = { from: 0, to: Number.MAX_SAFE_INTEGER },
): Promise<SteppedTurn[]> {
  return tx.query<SteppedTurn>(
    `select e.turn_id, min(e.occurred_at) as started_at,
       coalesce(jsonb_object_agg(e.step, (e.payload->>'ordinal')::int) filter (
         where e.type = 'model.responded' and ${HAS_CALLS}), '{}') as steps,
       coalesce(jsonb_object_agg(e.step, e.seq) filter (where ${ANSWERED}), '{}') as answers,
       coalesce(jsonb_object_agg(e.step, (e.payload->>'estimated_tokens')::int) filter (
         where e.type = 'model.called' and jsonb_typeof(e.payload->'tool_choice') = 'string'), '{}') as asked,
       min(e.seq) filter (where e.type = 'run.max_steps_reached') as max_steps_seq,
       coalesce(sum((e.payload->'usage'->>'input')::bigint) filter (where ${PAID}), 0)::bigint as input_tokens,
       coalesce(sum((e.payload->'usage'->>'output')::bigint) filter (where ${PAID}), 0)::bigint as output_tokens,
       count(*) filter (where e.type = 'file.stored') as files,
       (select jsonb_build_object('made_by', x.made_by, 'added', x.added, 'superseded', x.superseded, 'refused', x.refused,
           'finished_at', x.finished_at)
         from memory_extractions x
         where x.turn_id = e.turn_id and x.status = 'done' and (x.added <> '{}' or x.superseded <> '{}')) as learnt
     from (select u.id, u.run_id, case when u.beyond > $2 then greatest(u.first, $2) else u.first end as first, u.beyond,
         least(u.last_commit, ${commitUpTo('u.run_id', '$3::bigint')}) as last_commit from ${TURN_EVENTS} offset 0) u
       join run_events e on ${IN_TURN}
     where e.turn_id = u.id
       and (e.type in ('turn.started', 'model.called', 'model.responded', 'run.max_steps_reached', 'file.stored') or ${BROKEN_OFF})
     group by e.turn_id`,
    [turnIds, within.from, within.to],
  );
}
