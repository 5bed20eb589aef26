/** What tests read and move in tables, where no function of Drover does. One function for each question. */
import type { Database } from '../../db/database.ts';
import type { Engine } from './engine.ts';
import { query } from './template.ts';

type Rows = Pick<Engine, 'row' | 'rows'>;

export interface CallRow {
  status: string;
  attempt: number;
}

export async function statusOfRun(engine: Rows, run: string): Promise<string> {
  return (await engine.row<{ status: string }>('select status from runs where id = $1', run)).status;
}

export async function fenceOfRun(engine: Rows, run: string): Promise<number> {
  return (await engine.row<{ fence: number }>('select fence from runs where id = $1', run)).fence;
}

/** Of the run's only call. */
export function callOfRun(engine: Rows, run: string): Promise<CallRow> {
  return engine.row<CallRow>('select status, attempt from tool_calls where run_id = $1', run);
}

export function callsOfRun(engine: Rows, run: string): Promise<CallRow[]> {
  return engine.rows<CallRow>('select status, attempt from tool_calls where run_id = $1 order by place', run);
}

/** In the order in which they were asked for. */
export function approvalsOfRun<R extends object = { id: string }>(engine: Rows, run: string): Promise<R[]> {
  return engine.rows<R>('select * from approvals where run_id = $1 order by id', run);
}

/** As if the time until the next attempt of every delivery had passed, and what a dead sender held were free. */
export async function makeDeliveriesDue(databaseUrl: string): Promise<void> {
  await query(databaseUrl, 'update webhook_deliveries set next_at = now()');
  await query(databaseUrl, 'update webhooks set next_at = null, taken_until = null');
}

/** As if an agent had been silent, and offline where it is, for so many seconds. */
export async function silenceAgent(db: Owned, id: string, seconds: number): Promise<void> {
  await db.asOwner((client) =>
    client.query(
      `update agents set last_heartbeat_at = clock_timestamp() - $2 * interval '1 second',
         offline_since = case when status = 'offline' then clock_timestamp() - $2 * interval '1 second' end where id = $1`,
      [id, seconds],
    ),
  );
}

type Owned = Pick<Database, 'asOwner'>;

/** As if the time to decide on every open approval had passed. */
export async function expireApprovals(db: Owned): Promise<void> {
  const text = `update approvals set expires_at = now() - interval '1 second' where status = 'pending'`;
  await db.asOwner((client) => client.query(text));
}

/** What webhooks are told of beside the logs of runs, by type. */
export async function noticesTold(db: Owned): Promise<{ type: string; notice: object }[]> {
  const text = 'select type, notice from webhook_deliveries where notice is not null order by type';
  return (await db.asOwner((client) => client.query<{ type: string; notice: object }>(text))).rows;
}

/** Approvals that are about entries of memory. */
export async function memoryConflicts(db: Owned): Promise<object[]> {
  const text = `select arguments from approvals where subject_type = 'memory'`;
  return (await db.asOwner((client) => client.query<object>(text))).rows;
}
