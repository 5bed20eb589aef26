/** What a run has read of content that nobody vouches for, and what of it no model has answered to (docs/security.md). */
import type { GivenMemory } from '../core/memory/prompt.ts';
import { isTaintedStart, type Start } from '../core/taint.ts';
import type { Tx } from './database.ts';
import { asColumns } from './query-builder.ts';
import { edgeEvent } from './run-log.ts';

/** Beside answers of tools, what brings content by others into a conversation. */
const BRINGING = ['run.created', 'run.forked', 'turn.started', 'message.dequeued', 'memory.retrieved'];

interface BringingEvent {
  payload: { untrusted?: boolean; entries?: GivenMemory[] } & Partial<Start>;
}

/**
 * Commits that may have brought such content, by their text: of a run of 1,000 steps they are found in 4 ms, and to read all
 * events out of all commits took 20. Rows of before are one event each.
 */
const MAY_BRING = `(l.events is null or strpos(l.events, '"untrusted"') > 0 or strpos(l.payload::text, '"untrusted"') > 0
  or ${BRINGING.map((type) => `strpos(l.events, '${type} ') > 0`).join(' or ')})`;

/** Whether a run has read untrusted content in any of its turns, however they ended. */
export async function hasReadUntrusted(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ is_known: boolean; brought: BringingEvent[] }>(
    `select r.trust is not distinct from 'untrusted' or exists (
         select from tool_calls c where c.run_id = r.id and c.trust = 'untrusted' and c.status in ('succeeded', 'failed')) as is_known,
       coalesce((select jsonb_agg(jsonb_build_object('payload', e.payload)) from run_events e
         where e.run_id = r.id and e.commit_seq = any(array(select l.seq from run_log l where l.run_id = r.id and ${MAY_BRING}))
           and (e.type = any($2) or e.type = 'model.responded' and e.payload->'untrusted' is not null)), '[]') as brought
     from runs r where r.id = $1`,
    [runId, BRINGING],
  );
  return row !== undefined && (row.is_known || row.brought.some(isUntrusted));
}

/**
 * Whether a run has untrusted content to which no model has answered: results of calls that came after its last answered model
 * call was sent, messages and memories after that answer, or the answer of a workflow. A model call that failed, was cut off or
 * had an empty answer has answered to nothing. For the end of a turn, `unreadAtEnd` of core/taint.ts has the same rule.
 */
export async function hasUnread(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ is_result: boolean; brought: BringingEvent[] }>(
    `with answered as materialized (
       select e.commit_seq, e.seq from ${edgeEvent('last', { run: '$1', where: ANSWERED })} e),
     called as materialized (
       select e.commit_seq, e.seq from ${edgeEvent('last', { run: '$1', where: `${CALLED} and e.commit_seq <= (select commit_seq from answered) and e.seq < (select seq from answered)` })} e),
     results as (select e.payload from run_events e where e.run_id = $1 and e.type = any($3)
       and e.commit_seq >= coalesce((select commit_seq from called), 0) and e.seq > coalesce((select seq from called), 0))
     select exists (select from results s ${asColumns("(s.payload->>'tool_call_id')::uuid as call")} c
         left join tool_calls k on k.id = c.call where k.trust = 'untrusted' or s.payload->'untrusted' is not null)
       -- What comes after the run's end is in no event.
       or exists (select from tool_calls k join runs r on r.id = k.run_id where k.run_id = $1 and k.trust = 'untrusted'
         and k.status in ('succeeded', 'failed') and k.finished_at > r.completed_at)
       -- The answer of a workflow is made of results that no model has read on its thread.
       or exists (select from runs r where r.id = $1 and r.kind = 'workflow' and r.trust = 'untrusted') as is_result,
       coalesce((select jsonb_agg(jsonb_build_object('payload', e.payload)) from run_events e where e.run_id = $1 and e.type = any($2)
         and e.commit_seq >= coalesce((select commit_seq from answered), 0) and e.seq > coalesce((select seq from answered), 0)), '[]') as brought`,
    [runId, BRINGING, RESULTS],
  );
  return row !== undefined && (row.is_result || row.brought.some(isUntrusted));
}

const ANSWERED =
  "e.type = 'model.responded' and e.payload->'tool' is null and e.payload->>'empty' is distinct from 'true'";
const RESULTS = ['tool.succeeded', 'tool.failed', 'tool.resolved'];

const CALLED = "e.type = 'model.called' and e.payload->'tool_choice'->'tool' is null";

function isUntrusted({ payload: { untrusted, input, continues, entries = [] } }: BringingEvent): boolean {
  if (input) return isTaintedStart({ input, continues });
  return untrusted === true || entries.some(({ trusted }) => !trusted);
}
