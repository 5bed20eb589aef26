/** Turns of all tenants for the queue board: ids, names and outcomes, never content. */
import type { Database } from './database.ts';

/** States of a turn, in BullMQ's words. */
export type TurnState = 'active' | 'waiting' | 'waiting-children' | 'delayed' | 'completed' | 'failed';

export interface BoardTurn {
  id: string;
  state: TurnState;
  tenant_id: string;
  run_id: string;
  number: number;
  status: string;
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  steps: number;
  created_at: Date;
  completed_at: Date | null;
  agent: string;
  agent_id: string;
  agent_version: string;
  run_status: string;
  /** What the run waits for. */
  waits_for: string | null;
  suspended: boolean;
  /** Whether it is the run's last turn; jobs of open turns are named after it. */
  is_last: boolean;
  last_seq: number;
  fence: number;
  /** For a child: the turn of the parent in which it was created. */
  parent_id: string | null;
}

/** A turn with the number of ended and open runs created in it. */
export interface TurnAbove extends BoardTurn {
  ended_below: number;
  open_below: number;
}

/** A process with a worker for a queue. Fields are null if the database does not know them, as in embedded mode. */
interface QueueWorkerRow {
  pid: number;
  address: string | null;
  connected_seconds: number | null;
}

/** `delayed`: runs with a delayed job in the queue, which the database does not know. */
interface TurnFilter {
  state: TurnState;
  delayed: readonly string[];
  offset: number;
  limit: number;
}

/** States are counted up to this number, and no more turns are shown. */
export const MOST_SHOWN = 10_000;

/** Condition: runs that are driven, or should be. Uses the index `runs_to_drive`. */
const TO_DRIVE = `r.open_turn_id is not null and not r.dormant and r.status not in ('completed', 'failed', 'cancelled')`;

/** Condition: dormant runs, left by their driver until something comes, or until a time. Uses the index `runs_dormant`. */
const DORMANT = 'r.open_turn_id is not null and r.dormant';
const FOR_THE_TIME = `coalesce(r.waiting_for->>'type' = 'timer', false)`;

const STATE_TO_DRIVE = `case
  when r.driver_lease_expires_at > clock_timestamp() then 'active'
  when r.status = 'awaiting_tool' and exists (
    select from tool_calls k where k.run_id = r.id and k.mode = 'queued' and k.status in ('pending', 'running')) then 'waiting-children'
  when r.id = any($1::uuid[]) then 'delayed'
  else 'waiting' end`;

const STATE = `case
  when t.status = 'failed' then 'failed'
  when t.status in ('complete', 'cancelled') then 'completed'
  when r.dormant then case when ${FOR_THE_TIME} then 'delayed' else 'waiting-children' end
  else ${STATE_TO_DRIVE} end`;

/** The turn of a child's parent in which the child was created. */
const PARENT = (child: string) => `(select p.id from turns p
    where p.run_id = ${child}.parent_run_id and p.created_at <= ${child}.created_at order by p.number desc limit 1)`;

const COLUMNS = `t.id, ${STATE} as state, t.tenant_id, t.run_id, t.number, t.status, t.stop_reason, t.error, t.steps,
    t.created_at, t.completed_at, a.name as agent, r.agent_id, r.agent_version, r.status as run_status,
    r.waiting_for->>'type' as waits_for, r.last_seq, r.fence, t.number = r.turn_count as is_last,
    a.suspended_at is not null or n.suspended_by is not null as suspended, ${PARENT('r')} as parent_id`;

const FROM = `from turns t join runs r on r.id = t.run_id join agents a on a.id = r.agent_id join tenants n on n.id = r.tenant_id`;

const TURN = `select ${COLUMNS} ${FROM}`;

const ENDED = `c.status in ('completed', 'failed', 'cancelled')`;

/** A turn, with the numbers of runs below it. */
const TURN_ABOVE = `select ${COLUMNS}, below.ended as ended_below, below.open as open_below ${FROM}
  cross join lateral (
    select count(*) filter (where ${ENDED})::int as ended, count(*) filter (where not ${ENDED})::int as open
    from runs c where c.parent_run_id = t.run_id and ${PARENT('c')} = t.id) below`;

/** Counts the turns by state, each exactly up to `MOST_SHOWN`. */
export async function countTurns(db: Database, delayed: readonly string[]): Promise<Record<TurnState, number>> {
  const upTo = (from: string) => `(select count(*) from (select from ${from} limit ${MOST_SHOWN}) x)`;
  const rows = await db.asMaintenance((tx) =>
    tx.query<{ state: TurnState; count: number }>(
      `select state, sum(count)::int as count from (
         select ${STATE_TO_DRIVE} as state, count(*) from runs r where ${TO_DRIVE} group by 1
         union all select 'delayed', ${upTo(`runs r where ${DORMANT} and ${FOR_THE_TIME} = true`)}
         union all select 'waiting-children', ${upTo(`runs r where ${DORMANT} and ${FOR_THE_TIME} = false`)}
         union all select 'completed', ${upTo(`turns t where t.status in ('complete', 'cancelled')`)}
         union all select 'failed', ${upTo(`turns t where t.status = 'failed'`)}) counted group by state`,
      [delayed],
    ),
  );
  const counts = { active: 0, waiting: 0, 'waiting-children': 0, delayed: 0, completed: 0, failed: 0 };
  for (const { state, count } of rows) counts[state] = Math.min(count, MOST_SHOWN);
  return counts;
}

/** A page of the turns in a state, the newest first. */
export async function listBoardTurns(db: Database, filter: TurnFilter): Promise<BoardTurn[]> {
  const { state, delayed, offset, limit } = filter;
  const most = Math.min(limit, MOST_SHOWN - offset);
  if (most <= 0) return [];
  return db.asMaintenance((tx) =>
    tx.query<BoardTurn>(
      `${TURN} join (select * from (${idsOf(state)}) ids order by place desc offset $2::int limit $3::int) listed on listed.id = t.id
       order by listed.place desc`,
      [delayed, offset, most],
    ),
  );
}

/** Ids of a state's turns with their sort keys, as many as a page and its offset need. */
function idsOf(state: TurnState): string {
  const open = (where: string) =>
    `(select r.open_turn_id as id, r.id as place from runs r where ${where} order by r.id desc limit $2::int + $3::int)`;
  const ended = (where: string) =>
    `select t.id, t.id as place from turns t where ${where} order by t.id desc limit $2::int + $3::int`;
  const toDrive = open(`${TO_DRIVE} and ${STATE_TO_DRIVE} = '${state}'`);
  switch (state) {
    case 'active':
    case 'waiting':
      return toDrive;
    case 'delayed':
      return `${toDrive} union all ${open(`${DORMANT} and ${FOR_THE_TIME} = true`)}`;
    case 'waiting-children':
      return `${toDrive} union all ${open(`${DORMANT} and ${FOR_THE_TIME} = false`)}`;
    case 'completed':
      return ended(`t.status in ('complete', 'cancelled')`);
    case 'failed':
      return ended(`t.status = 'failed'`);
  }
}

/** A turn of any tenant. */
export async function findBoardTurn(
  db: Database,
  id: string,
  delayed: readonly string[],
): Promise<BoardTurn | undefined> {
  return findOne<BoardTurn>(db, `${TURN} where t.id = $2`, [delayed, id]);
}

/** A turn with the numbers of runs below it. */
export async function findTurnAbove(
  db: Database,
  id: string,
  delayed: readonly string[],
): Promise<TurnAbove | undefined> {
  return findOne<TurnAbove>(db, `${TURN_ABOVE} where t.id = $2`, [delayed, id]);
}

async function findOne<T extends object>(db: Database, text: string, values: unknown[]): Promise<T | undefined> {
  const [row] = await db.asMaintenance((tx) => tx.query<T>(text, values));
  return row;
}

/** Last turns of the first children of each of these turns, in order of creation. */
export async function listTurnsBelow(
  db: Database,
  above: { ids: readonly string[]; delayed: readonly string[]; limit: number },
): Promise<TurnAbove[]> {
  return db.asMaintenance((tx) =>
    tx.query<TurnAbove>(
      `${TURN_ABOVE} join (
         select child.id from turns up cross join lateral (
           select c.id from runs c where c.parent_run_id = up.run_id and ${PARENT('c')} = up.id order by c.id limit $3::int) child
         where up.id = any($2::uuid[])) listed on listed.id = r.id and t.number = r.turn_count
       order by r.id`,
      [above.delayed, above.ids, above.limit],
    ),
  );
}

/** The last turns of a run, newest first; empty if the run does not exist or has no turns. */
export async function listTurnsOfRun(
  db: Database,
  run: { id: string; delayed: readonly string[]; limit: number },
): Promise<BoardTurn[]> {
  return db.asMaintenance((tx) =>
    tx.query<BoardTurn>(`${TURN} where t.run_id = $2 order by t.number desc limit $3`, [
      run.delayed,
      run.id,
      run.limit,
    ]),
  );
}

/** Processes with a worker for the queue, if the queue uses the database. */
export async function listQueueWorkers(db: Database, queue: string): Promise<QueueWorkerRow[]> {
  return db.asMaintenance((tx) => tx.query<QueueWorkerRow>('select * from queue_workers($1)', [queue]));
}
