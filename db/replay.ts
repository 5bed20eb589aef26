/** Reads what a replay needs of earlier runs: their calls after the fork, and their models' answers. */
import { compaction, type Compaction } from '../core/compaction.ts';
import type { RefusedFiles } from '../core/refused-files.ts';
import type { AssistantBlock } from '../core/content.ts';
import type { NewEvent, TurnInput } from '../core/events.ts';
import type { AttemptError } from '../core/ledger.ts';
import type { GivenMemory } from '../core/memory/prompt.ts';
import type { StopReason, TokenUsage } from '../core/model.ts';
import type { MessageOrigin, Trust } from '../core/origin.ts';
import type { CallStatus } from '../core/state.ts';
import { DELEGATE_TOOL, type ToolEffect } from '../core/tool.ts';
import { outputColumns, type OutputPart } from '../core/tool-output.ts';
import { carriedAfter, CARRYING, takenOver, type Carried, type Carrying, type Handed } from '../core/carried.ts';
import type { Tx } from './database.ts';
import { IS_WHOLE, readWholeOutput } from './outputs.ts';
import { asColumns } from './query-builder.ts';
import { commitUpTo, edgeEvent } from './run-log.ts';
import { BELOW, HAD_EFFECT } from './task-effects.ts';

/** A recorded call that no later run has used yet. */
export interface RecordedCallRow {
  id: string;
  tool_id: string | null;
  name: string;
  arguments: Record<string, unknown>;
  /** The model's own arguments, if a person or a policy has replaced them. */
  asked: Record<string, unknown> | null;
  effect: ToolEffect;
  /** The key it was made under, or would have been. */
  idempotency_key: string;
  status: CallStatus;
  is_error: boolean | null;
  error: AttemptError | null;
  output_bytes: number | null;
  origin: MessageOrigin | null;
  trust: Trust | null;
  /** What the model sees of the output; null if it is the (small) output itself. */
  content: OutputPart[] | null;
  output: unknown;
  /** Sequence number of the last event about the call. */
  seq: number;
}

/** A point in another run's log. */
interface RecordPoint {
  runId: string;
  seq: number;
}

/** Whether `k` is a delegation that failed or was cancelled after having effects: how far it came is unknown. */
const FAILED_WITH_EFFECTS = `(k.name = '${DELEGATE_TOOL}' and k.status in ('failed', 'denied') and exists (
  with recursive below (id) as (select c.id from runs c where c.parent_run_id = k.run_id and c.parent_task_id = k.id ${BELOW})
  select from below b join tool_calls d on d.run_id = b.id where ${HAD_EFFECT.replaceAll('k.', 'd.')}))`;

/** How many forks of forks to go back. */
const MOST_FORKS = 100;

/**
 * Calls of a run that settled after a point or not at all, followed by those of the runs it was forked from. A call
 * that one of these runs answered from the record counts once. Calls of the step to redo are included whenever they
 * settled. Nearest run first, each in order.
 */
export async function listRecordedCalls(
  tx: Tx,
  point: RecordPoint,
  more: { usedBy?: string | undefined; redo?: { runId: string; step: number } | null } = {},
): Promise<RecordedCallRow[]> {
  const rows = await tx.query<RecordedCallRow & { is_whole: boolean }>(
    `with recursive chain (id, at_seq, depth) as (
       select $1::uuid, $2::bigint, 1
       union all
       select r.forked_from_run_id, r.forked_at_seq, c.depth + 1 from chain c join runs r on r.id = c.id
         where r.forked_from_run_id is not null and c.depth < ${MOST_FORKS}),
     told as (
       select (e.payload->>'tool_call_id')::uuid as call, max(e.seq) as seq,
         max(e.seq) filter (where e.type not in ('tool.requested', 'tool.started')) as settled_seq
       from chain c join run_events e on e.run_id = c.id and e.type like 'tool.%' group by 1),
     -- What a call was asked for before a person edited it, where its own row does not say so yet.
     edited as (
       select distinct on (a.tool_call_id) a.tool_call_id as call, a.original_arguments as asked
       from chain c join approvals a on a.run_id = c.id where a.original_arguments is not null)
     select k.id, k.tool_id, k.name, k.arguments, coalesce(k.asked, d.asked) as asked, k.effect, k.idempotency_key, case when ${FAILED_WITH_EFFECTS} then 'unknown' else k.status end as status, k.is_error, k.error, k.output_bytes, k.origin, k.trust,
       k.model_output as content, ${IS_WHOLE} as is_whole, case when k.model_output is null and not ${IS_WHOLE} then k.output end as output,
       coalesce(t.seq, 0) as seq
     from chain c join tool_calls k on k.run_id = c.id left join told t on t.call = k.id left join edited d on d.call = k.id
     where (t.settled_seq is null or t.settled_seq > c.at_seq or (k.run_id = $4 and k.step = $5))
       and not exists (select 1 from tool_calls u
         where u.recorded_from = k.id and u.run_id = any(array(select id from chain union all select $3::uuid)))
     order by c.depth, k.step, k.place`,
    [point.runId, point.seq, more.usedBy ?? null, more.redo?.runId ?? null, more.redo?.step ?? null],
  );
  const calls: RecordedCallRow[] = [];
  for (const { is_whole: isWhole, ...call } of rows) {
    calls.push(isWhole ? { ...call, content: outputColumns(await readWholeOutput(tx, call.id)).model_output } : call);
  }
  return calls;
}

/** A model's answer at a step, and the call that asked for it, which was sent the messages before `ordinal`. */
export interface RecordedAnswerRow {
  seq: number;
  step: number;
  asked: { provider: string; model: string; tool_choice: 'auto' | 'none'; examples?: number[] } | null;
  responded: {
    provider: string;
    model: string;
    stop_reason: StopReason;
    ordinal: number;
    usage: TokenUsage;
    container_id?: string;
  };
  content: AssistantBlock[] | null;
  /** The agent's memories that the turn had been given, if any. */
  memory: { entries: GivenMemory[]; ordinal: number } | null;
}

/** A run's model answers in steps `from` to `to`, in order. */
export async function listRecordedAnswers(
  tx: Tx,
  runId: string,
  steps: { from: number; to?: number },
): Promise<RecordedAnswerRow[]> {
  return tx.query<RecordedAnswerRow>(
    // In one pass: each answer belongs to the call, and the given memories, that opened its group.
    `with told as (
       select e.*, count(*) filter (where e.type = 'model.called') over (order by e.seq) as calls,
         count(*) filter (where e.type = 'memory.retrieved') over (partition by e.turn_id order by e.seq) as gifts
       from run_events e where e.run_id = $1 and (e.type in ('model.responded', 'memory.retrieved')
         or e.type = 'model.called' and jsonb_typeof(e.payload->'tool_choice') = 'string')),
     grouped as materialized (
       select t.*, first_value(t.payload) over (partition by t.calls order by t.seq) as asked,
         first_value(t.payload) over (partition by t.turn_id, t.gifts order by t.seq) as given
       from told t)
     select a.seq, a.step, case when a.calls > 0 then a.asked end as asked, a.payload as responded, m.content,
       case when a.gifts > 0 then a.given end as memory
     from grouped a
     join runs r on r.id = a.run_id
     ${asColumns(`(a.payload->>'ordinal')::int as ordinal`)} p
     left join messages m on m.lineage = r.lineage and m.ordinal = p.ordinal
     where a.type = 'model.responded' and a.payload->'tool' is null and a.step >= $2 and ($3::int is null or a.step <= $3)
     order by a.seq`,
    [runId, steps.from, steps.to ?? null],
  );
}

/** A compaction of a run's conversation, before the model call of a step. */
export interface RecordedCompaction {
  step: number;
  payload: Extract<NewEvent, { type: 'context.compacted' }>['payload'];
}

/** A run's compactions, in order, and the one it began with. */
export async function listCompactions(
  tx: Tx,
  runId: string,
): Promise<{ compactions: RecordedCompaction[]; context: Compaction | undefined }> {
  const compactions = await tx.query<RecordedCompaction>(
    `select step, payload from run_events where run_id = $1 and type = 'context.compacted' order by seq`,
    [runId],
  );
  const [first] = await tx.query<{ context: Compaction | null }>(
    `select payload->'context' as context from run_events where run_id = $1 and seq = 1 order by commit_seq limit 1`,
    [runId],
  );
  return { compactions, context: first?.context ?? undefined };
}

/** Steps in which a run asked a model by a tool of Drover's own. */
export async function listOwnAsks(tx: Tx, runId: string, tool: string): Promise<number[]> {
  const rows = await tx.query<{ step: number }>(
    `select distinct step from run_events
     where run_id = $1 and type in ('model.responded', 'model.failed') and payload->>'tool' = $2`,
    [runId, tool],
  );
  return rows.map(({ step }) => step);
}

/** The outcome of a reflection on an answer, in its step. */
export interface RecordedReflection {
  step: number;
  payload: Extract<NewEvent, { type: 'reflection.completed' }>['payload'];
}

/** A run's reflections, in order. */
export function listReflections(tx: Tx, runId: string): Promise<RecordedReflection[]> {
  return tx.query<RecordedReflection>(
    `select step, payload from run_events where run_id = $1 and type = 'reflection.completed' order by seq`,
    [runId],
  );
}

/** From this event on: the open node of the agent's graph, and its filled-in prompt, if any. */
export interface RecordedNode {
  seq: number;
  node: string | null;
  prompt: string | null;
}

/** A run's way through its agent's graph, in order. */
export function listRecordedNodes(tx: Tx, runId: string): Promise<RecordedNode[]> {
  return tx.query<RecordedNode>(
    `select seq, case when open then at->>'node' end as node, case when open then at->>'prompt' end as prompt
     from (select seq, type = 'node.entered' or type = 'run.forked' and payload->'graph'->>'open' = 'true' as open,
         case type when 'run.forked' then payload->'graph' else payload end as at
       from run_events where run_id = $1 and (type in ('run.forked', 'node.entered', 'node.completed')
         or type = 'turn.started' and payload->'continues' is null)) moved
     order by seq`,
    [runId],
  );
}

/** Which part of the conversation was sent before an event: the compaction in force, and the first ordinal kept. */
export async function findContextAt(
  tx: Tx,
  runId: string,
  seq: number,
): Promise<{ compaction: Compaction | undefined; firstKept: number; refusedFiles: RefusedFiles[] }> {
  const found = await tx.query<{
    type: string;
    payload: { first_kept_ordinal: number; refused_files: RefusedFiles[] };
  }>(
    `select type, case type when 'model.failed' then jsonb_build_object('refused_files', jsonb_build_array(payload->'refused_files'))
         else payload end as payload from run_events
     where run_id = $1 and seq < $2 and commit_seq <= (select ${commitUpTo('$1', '$2')})
       and (type in ('context.compacted', 'context.transformed')
         or (type = 'model.failed' or seq = 1) and payload->'refused_files' is not null) order by seq desc`,
    [runId, seq],
  );
  const refusedFiles = found.flatMap(({ payload }) => payload.refused_files ?? []);
  const rows = found.filter(({ type }) => type.startsWith('context.'));
  const { context } = await listCompactions(tx, runId);
  const last = rows.find(({ type }) => type === 'context.compacted')?.payload;
  const made = last ? compaction.parse(last) : context;
  const firstKept = rows[0]?.payload.first_kept_ordinal ?? made?.first_kept_ordinal ?? 0;
  return { compaction: made, firstKept, refusedFiles };
}

/** Length of the conversation that a model call was answered for, including messages read into it after its announcement. */
export async function findLengthSent(
  tx: Tx,
  runId: string,
  called: { seq: number; payload: { length: number } },
): Promise<number> {
  const [row] = await tx.query<{ length: number | null }>(
    `with next as (select e.seq, e.commit_seq from ${edgeEvent('first', {
      run: '$1',
      where: `e.commit_seq > $2 and e.seq > $2
       and e.type in ('model.called', 'model.responded', 'turn.completed', 'turn.failed', 'turn.interrupted', 'turn.started')`,
    })} e)
     select max((payload->>'length')::int) as length from run_events
     where run_id = $1 and commit_seq > $2 and commit_seq <= (select coalesce(min(commit_seq), 9223372036854775807) from next)
       and seq > $2 and seq < (select coalesce(min(seq), 9223372036854775807) from next) and type = 'message.dequeued' and payload->>'as' = 'steer'`,
    [runId, called.seq],
  );
  return row?.length ?? called.payload.length;
}

/** The memories that the event's turn had been given before it. */
export async function findGivenMemories(
  tx: Tx,
  runId: string,
  { turn_id: turnId, seq }: { turn_id: string | null; seq: number },
): Promise<{ entries: GivenMemory[]; ordinal: number } | undefined> {
  const [row] = await tx.query<{ payload: { entries: GivenMemory[]; ordinal: number } }>(
    `select e.payload from ${edgeEvent('last', {
      run: '$1',
      where: `e.turn_id = $2 and e.seq < $3 and e.type = 'memory.retrieved'
       and e.commit_seq <= (select ${commitUpTo('$1', '$3')})`,
    })} e`,
    [runId, turnId, seq],
  );
  return row?.payload;
}

/** What a run hands on to the next one of its thread, or had before a step. */
export async function findCarried(
  tx: Tx,
  runId: string,
  { beforeStep }: { beforeStep?: number } = {},
): Promise<Carried> {
  const [start] = await tx.query<{ seq: number; state: Carrying }>(
    `select seq, jsonb_build_object('calibration', state->'calibration', 'containerId', state->'containerId',
         'steered', state->'steered', 'refusedFiles', state->'refusedFiles', 'modelCall', state->'modelCall', 'firstKept', state->'firstKept', 'cut', state->'cut') as state
       from checkpoints where run_id = $1 and ($2::int is null or (state->>'steps')::int < $2) order by seq desc limit 1`,
    [runId, beforeStep ?? null],
  );
  const [first] = await tx.query<{ payload: Handed }>(
    `select payload from run_events where run_id = $1 and seq = 1 order by commit_seq limit 1`,
    [runId],
  );
  const events = await tx.query<Parameters<typeof carriedAfter>[1][number]>(
    `select type, payload, turn_id from run_events where run_id = $1 and commit_seq > $2 and seq > $2 and type = any($3)
       and ($4::int is null or step < $4) order by commit_seq, seq`,
    [runId, start?.seq ?? 1, CARRYING, beforeStep ?? null],
  );
  return carriedAfter(start ? definedOf(start.state) : takenOver(first?.payload ?? {}), events);
}

/** The usage that a provider reported for a run's last model call. */
export async function findLastUsage(tx: Tx, runId: string): Promise<TokenUsage | undefined> {
  const [row] = await tx.query<{ usage: TokenUsage }>(
    `select payload->'usage' as usage
     from run_events where run_id = $1 and type = 'model.responded' and payload->'tool' is null
     order by commit_seq desc, seq desc limit 1`,
    [runId],
  );
  return row?.usage;
}

/** Drops nulls, by which a checkpoint stands for missing values. */
function definedOf<T extends object>(state: T): T {
  return Object.fromEntries(Object.entries(state).filter(([, value]) => value !== null)) as T;
}

/** The compaction in force at a run's end. */
export async function findCompaction(tx: Tx, runId: string): Promise<Compaction | undefined> {
  const { compactions, context } = await listCompactions(tx, runId);
  const last = compactions.at(-1)?.payload;
  return last ? compaction.parse(last) : context;
}

/** How many calls of a turn an earlier run had made, from which this one has gone on in the middle of the turn. */
export async function countCarriedCalls(tx: Tx, { runId, turnId }: { runId: string; turnId: string }): Promise<number> {
  const first = edgeEvent('first', { run: '$1', where: "e.type = 'turn.started'" });
  const [row] = await tx.query<{ count: number | null }>(
    `select (e.payload->'continues'->>'tool_calls')::int as count from ${first} e where e.turn_id = $2`,
    [runId, turnId],
  );
  return row?.count ?? 0;
}

export interface StartedTurn {
  id: string;
  seq: number;
  input: TurnInput;
  completed_seq: number | null;
}

/** The next, or the last, turn that began after a point of a run. */
export async function findTurnAfter(
  tx: Tx,
  point: RecordPoint,
  which: 'next' | 'last',
): Promise<StartedTurn | undefined> {
  const [row] = await tx.query<StartedTurn>(
    `select e.turn_id as id, e.seq, e.payload->'input' as input, (select c.seq from run_events c
         where c.run_id = e.run_id and c.commit_seq >= e.commit_seq and c.seq > e.seq and c.turn_id = e.turn_id and c.type = 'turn.completed') as completed_seq
     from ${edgeEvent(which === 'next' ? 'first' : 'last', { run: '$1', where: "e.commit_seq > $2 and e.seq > $2 and e.type = 'turn.started'" })} e`,
    [point.runId, point.seq],
  );
  return row;
}
