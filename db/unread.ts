/** What a run has read of content that nobody vouches for, and what of it no model has answered to (docs/security.md). */
import type { GivenMemory } from '../core/memory/prompt.ts';
import { isTaintedStart, type Start } from '../core/taint.ts';
import type { Tx } from './database.ts';
import { edgeEvent } from './run-log.ts';

/** Beside answers of tools, what brings content by others into a conversation. */
const BRINGING = ['run.created', 'run.forked', 'turn.started', 'message.dequeued', 'memory.retrieved'];

interface BringingEvent {
  payload: { untrusted?: boolean; entries?: GivenMemory[] } & Partial<Start>;
}

/** Whether a run has read untrusted content in any of its turns, however they ended. */
export async function hasReadUntrusted(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ is_known: boolean; brought: BringingEvent[] }>(
    `select r.trust is not distinct from 'untrusted' or exists (
         select from tool_calls c where c.run_id = r.id and c.trust = 'untrusted' and c.status in ('succeeded', 'failed')) as is_known,
       coalesce((select jsonb_agg(jsonb_build_object('payload', e.payload)) from run_events e
         where e.run_id = r.id and (e.type = any($2) or e.type = 'model.responded' and e.payload->'untrusted' is not null)), '[]') as brought
     from runs r where r.id = $1`,
    [runId, BRINGING],
  );
  return row !== undefined && (row.is_known || row.brought.some(isUntrusted));
}

/**
 * Whether a run has untrusted content to which no model has answered: results of calls that came after its last answered model
 * call was sent, or messages and memories after that answer. A model call that failed or was cut off has answered to nothing.
 */
export async function hasUnread(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ is_result: boolean; brought: BringingEvent[] }>(
    `with answered as materialized (
       select e.commit_seq, e.seq from ${edgeEvent('last', { run: '$1', where: "e.type = 'model.responded' and e.payload->'tool' is null" })} e),
     called as materialized (
       select e.occurred_at from ${edgeEvent('last', { run: '$1', where: `${CALLED} and e.commit_seq <= (select commit_seq from answered) and e.seq < (select seq from answered)` })} e),
     -- Without a model call nothing waits for one to read it but what came after the end.
     since as (select coalesce((select occurred_at from called),
       case when exists (select from run_events e where e.run_id = $1 and ${CALLED}) then '-infinity' else r.completed_at end) as at
       from runs r where r.id = $1)
     select exists (select from tool_calls c where c.run_id = $1 and c.trust = 'untrusted' and c.status in ('succeeded', 'failed')
         and c.finished_at > (select at from since)) as is_result,
       coalesce((select jsonb_agg(jsonb_build_object('payload', e.payload)) from run_events e where e.run_id = $1 and e.type = any($2)
         and e.commit_seq >= coalesce((select commit_seq from answered), 0) and e.seq > coalesce((select seq from answered), 0)), '[]') as brought`,
    [runId, BRINGING],
  );
  return row !== undefined && (row.is_result || row.brought.some(isUntrusted));
}

const CALLED = "e.type = 'model.called' and e.payload->'tool_choice'->'tool' is null";

function isUntrusted({ payload: { untrusted, input, continues, entries = [] } }: BringingEvent): boolean {
  if (input) return isTaintedStart({ input, continues });
  return untrusted === true || entries.some(({ trusted }) => !trusted);
}
