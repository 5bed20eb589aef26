/** Events, messages and checkpoints of runs, as tests read them and tamper with them. */
import type { Database } from '../../../db/database.ts';
import { row, rows, rowsAsOwner, tamper, type Owner, type Tenant } from './access.ts';

/** In the order of the log. */
export async function typesOfEvents(tenant: Tenant, run: string): Promise<string[]> {
  const sql = 'select type from run_events where run_id = $1 order by seq';
  return (await rows<{ type: string }>(tenant, sql, run)).map(({ type }) => type);
}

/** How many commits have brought a run its signals. */
export async function countSignalCommits(db: Database, run: string): Promise<number> {
  const sql = `select count(distinct occurred_at)::int as commits from run_events where run_id = $1 and type = 'signal.received'`;
  return (await rowsAsOwner<{ commits: number }>(db, sql, run))[0]?.commits ?? 0;
}

/** Writes each event of a run into a row of its own, as all were before `0171-log-of-commits`. */
export function splitLog(owner: Owner, run: string): Promise<void> {
  return tamper(
    owner,
    `with events as materialized (select * from run_events where run_id = $1),
       taken as (delete from run_log where run_id = $1 returning 1)
     insert into run_log (tenant_id, workspace_id, run_id, seq, turn_id, step, type, schema_version, actor, payload, occurred_at)
       select tenant_id, workspace_id, run_id, seq, turn_id, step, type, schema_version, actor, payload, occurred_at
       from (select count(*) from taken) as done, events`,
    run,
  );
}

/** Changes rows of `run_log`, of which each has one event then; the first value is the run's id. */
async function tamperWithEvents(owner: Owner, sql: string, ...values: readonly [string, ...unknown[]]): Promise<void> {
  await splitLog(owner, values[0]);
  await tamper(owner, sql, ...values);
}

/** As if a newer build, for which that payload has another meaning, had written the events of a type. */
export function raiseEvents(owner: Owner, run: string, type: string): Promise<void> {
  return tamperWithEvents(
    owner,
    `update run_log set schema_version = 99, payload = payload || '{"mode": "sideways", "added": 1}'
       where run_id = $1 and type = $2`,
    run,
    type,
  );
}

/** Takes all out of the payloads of a type, up to a place: none of these events can be read any more. */
export function blankEvents(owner: Owner, run: string, of: { type: string; before?: number }): Promise<void> {
  const sql = `update run_log set payload = '{}' where run_id = $1 and type = $2 and seq < $3`;
  return tamperWithEvents(owner, sql, run, of.type, of.before ?? 2 ** 31 - 1);
}

export function loseEvents(owner: Owner, run: string, type: string): Promise<void> {
  return tamperWithEvents(owner, 'delete from run_log where run_id = $1 and type = $2', run, type);
}

/** As if a run had been waiting for its provider since 2020. */
export function backdateDeferral(owner: Owner, run: string): Promise<void> {
  return tamperWithEvents(
    owner,
    `update run_log set payload = payload || jsonb_build_object('since', '2020-01-01T00:00:00.000Z')
       where run_id = $1 and type = 'model.deferred'`,
    run,
  );
}

interface StoredMessage {
  ordinal: number;
  origin: string;
  trust: string;
  content: unknown[];
}

/** The messages that a run has written itself, in order. */
export function messagesOfRun(tenant: Tenant, run: string): Promise<StoredMessage[]> {
  return rows(tenant, 'select ordinal, origin, trust, content from messages where run_id = $1 order by ordinal', run);
}

/** Puts other words into a message of a run's conversation, whoever has written it. */
export function changeMessage(owner: Owner, run: string, ordinal: number): Promise<void> {
  const lineage = '(select lineage from runs where id = $2)';
  const content = JSON.stringify([{ type: 'text', text: 'changed' }]);
  const sql = `update messages set content = $1::jsonb where ordinal = $3 and lineage = ${lineage}`;
  return tamper(owner, sql, content, run, ordinal);
}

/** Puts other words into all that a run has written itself, from a place on. */
export async function changeMessagesFrom(db: Database, run: string, ordinal: number): Promise<void> {
  const sql = `update messages set content = '[{"type":"text","text":"x"}]' where run_id = $1 and ordinal >= $2`;
  await rowsAsOwner(db, sql, run, ordinal);
}

export function loseMessage(owner: Owner, run: string, ordinal: number): Promise<void> {
  return tamper(owner, 'delete from messages where run_id = $1 and ordinal = $2', run, ordinal);
}

/** Messages and events that hold a text. */
export function contentsWith(tenant: Tenant, text: string): Promise<object[]> {
  return rows(
    tenant,
    `select 1 from messages where content::text like $1 union all select 1 from run_events where payload::text like $1`,
    `%${text}%`,
  );
}

/** Whatever is stored for runs that wait, as text. */
export async function textsOfWaitingRuns(db: Database): Promise<string[]> {
  const found = await rowsAsOwner<{ row: string }>(
    db,
    `select w::text as row from waits w union all select e::text from run_events e union all select c::text from checkpoints c
     union all select k::text from tool_calls k union all select o::text from outbox o`,
  );
  return found.map(({ row: text }) => text);
}

interface StoredCheckpoint {
  seq: number;
  id: string;
  parent_id: string | null;
  steps: number;
}

/** In the order of the log. */
export function checkpointsOfRun(tenant: Tenant, run: string): Promise<StoredCheckpoint[]> {
  const sql = `select seq, id, parent_id, (state->>'steps')::int as steps from checkpoints where run_id = $1 order by seq`;
  return rows(tenant, sql, run);
}

/** How many checkpoints a run has, and how large they are together. */
export async function sizeOfCheckpoints(tenant: Tenant, run: string): Promise<{ bytes: number; count: number }> {
  const sql = `select coalesce(sum(length(to_jsonb(c)::text)), 0)::int as bytes, count(*)::int as count from checkpoints c where run_id = $1`;
  return row(tenant, sql, run);
}

/** All checkpoints of a run, or the one at a place of the log, whose states do not fit their hashes. */
export function spoilCheckpoints(owner: Owner, run: string, seq?: number): Promise<void> {
  const sql = `update checkpoints set state = jsonb_set(state, '{steps}', '99') where run_id = $1 and seq = coalesce($2, seq)`;
  return tamper(owner, sql, run, seq ?? null);
}

/** Checkpoints whose hashes do not fit their states. */
export function spoilHashes(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update checkpoints set hash = 'none' where run_id = $1`, run);
}

/** As if a newer build had saved them. */
export function raiseCheckpoints(owner: Owner, run: string): Promise<void> {
  const sql = `update checkpoints set state = state || '{"log_version": 9999, "steps": 99}' where run_id = $1`;
  return tamper(owner, sql, run);
}

export function loseCheckpoints(owner: Owner, run: string): Promise<void> {
  return tamper(owner, 'delete from checkpoints where run_id = $1', run);
}

/** As if the model had taken so long for each of its answers. */
export function slowModelCalls(owner: Owner, run: string, ms: number): Promise<void> {
  const sql = `update run_log set payload = payload || jsonb_build_object('latency_ms', $2::int) where run_id = $1 and type = 'model.responded'`;
  return tamperWithEvents(owner, sql, run, ms);
}
