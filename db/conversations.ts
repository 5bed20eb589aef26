/** Conversations: pages of turns with what was said, of a thread or of an agent. */
import type { StoredBlock } from '../core/content.ts';
import type { TurnInput } from '../core/events.ts';
import type { Tx } from './database.ts';
import type { TurnRow } from './turns.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';
import { asColumns } from './query-builder.ts';
import type { FoundThread } from './threads.ts';
import { firstNumber, newestOf, partsOf, partsOfItself, turnsMoreBefore } from './thread-parts.ts';

export interface ConversationRow {
  id: string;
  run_id: string;
  thread_id: string;
  thread_place: number;
  agent_id: string;
  number: number;
  /** Its number among the turns of its own thread, from 1. */
  sequence_number: number;
  status: TurnRow['status'];
  input: TurnInput;
  output: StoredBlock[] | null;
  /** What was said in a turn that was cut off; read for a page. */
  partial?: string | null;
  stop_reason: string | null;
  error: { code: string; message: string } | null;
  steps: number;
  extras: Record<string, unknown>;
  created_at: Date;
  completed_at: Date | null;
  base_length: number;
  /** How many of its conversation's messages are of lineages before its run's own. */
  shared_length: number;
  erased_at: Date | null;
}

const COLUMNS = `u.id, u.run_id, r.thread_id, r.thread_place, r.agent_id, u.number, u.status, u.input, m.content as output, u.stop_reason, u.error,
  u.steps, coalesce(x.extras, '{}') as extras, u.created_at, u.completed_at, r.base_length,
  coalesce((r.lineage_base->-1->>'length')::int, 0) as shared_length, r.erased_at`;
const SIZED = `${COLUMNS}, json_bytes(u.input) + coalesce(json_bytes(m.content), 0) as bytes`;
/** The answer is found for itself: joined to the run first, all messages of its conversation might be read. */
const OF_TURN = `left join turn_extras x on x.turn_id = u.id
  left join lateral (select a.content from messages a where a.lineage = r.lineage and a.ordinal = u.output_ordinal offset 0) m on true`;
const TABLES = `runs r join turns u on u.run_id = r.id ${OF_TURN}`;

/**
 * Turns with their numbers in their threads. Most runs have one turn each, which their places count; only the others of a
 * thread are counted, once, however many of its turns there are. A run forked from another goes on with the other's numbers.
 */
const numbered = (turns: string, order: string) => `with page as materialized (${turns}),
  earlier as materialized ${turnsMoreBefore('page')}
  select page.*, (page.thread_place + coalesce(e.more, 0) + page.number - ${firstNumber('page.run_id')})::bigint as sequence_number
  from page join earlier e on e.thread_id = page.thread_id and e.thread_place = page.thread_place order by ${order}`;

/** The same, up to a page's size, sorted by these columns. */
const numberedUntilFull = (turns: string, order: readonly string[]) =>
  numbered(untilFull(turns, order.join(', ')), order.map((column) => `page.${column}`).join(', '));

/** A turn in a thread's conversation: its number in the run at this place of the thread that is so many forks back. */
export interface TurnOfThread {
  forks: number;
  place: number;
  number: number;
}

/** A turn of a thread, or of one that the thread was forked from, so many forks back. */
export type ThreadTurnRow = ConversationRow & { forks: number };

/**
 * A page of a thread's conversation, newest first, before a given turn. `keyId`: a key that may read only threads on which it
 * has asked for a turn.
 */
export async function listThreadTurns(
  tx: Tx,
  { id, is_forked: isForked }: Pick<FoundThread, 'id' | 'is_forked'>,
  page: { before?: TurnOfThread | undefined; keyId?: string | undefined; limit: number },
): Promise<Page<ThreadTurnRow>> {
  // What is shown is found by indexes first: by itself, the join with the texts might be sorted as a whole.
  const turns = `select ${SIZED}, shown.forks from (
      with recursive ${isForked ? partsOf({ thread: '$1', key: '$6' }) : partsOfItself('$1')}
      select t.id, p.forks from (
          select n.thread_id, n.forks, case when cut.is_here then $2::int else n.place end as place,
            case when cut.is_here then $3::int else n.before end as before
          from parts n ${asColumns('n.forks = $5::int and ($2::int, $3::int) < (n.place, n.before) as is_here')} cut where n.forks >= $5::int) p
        cross join lateral ${newestOf('$4')} t
      order by p.forks, t.thread_place desc, t.number desc limit $4) shown
    join turns u on u.id = shown.id join runs r on r.id = u.run_id ${OF_TURN}`;
  const { before, keyId, limit } = page;
  const values = [id, before?.place ?? null, before?.number ?? null, limit + 1, before?.forks ?? 0];
  if (isForked) values.push(keyId ?? null);
  const found = await tx.query<ThreadTurnRow & Sized>(
    numberedUntilFull(turns, ['forks', 'thread_place desc', 'number desc']),
    values,
  );
  return pageOfSized(found, limit);
}

/** A turn, identified by run and number. */
interface TurnPlace {
  run: string;
  number: number;
}

interface AgentPage {
  agentId: string;
  before?: TurnPlace | undefined;
  limit: number;
}

/** A page of turns of an agent's runs, newest first. Turns from before migration 0179 come last, ordered by run. */
export async function listAgentTurns(
  tx: Tx,
  agentId: string,
  page: Omit<AgentPage, 'agentId'>,
): Promise<Page<ConversationRow>> {
  const asked = { ...page, agentId };
  const isUnnamed = page.before !== undefined && !(await isNamed(tx, page.before));
  const named = isUnnamed ? [] : await listNamedTurns(tx, asked);
  if (named.length > page.limit) return pageOfSized(named, page.limit);
  const before = isUnnamed ? page.before : undefined;
  const others = await listUnnamedTurns(tx, { ...asked, before, limit: page.limit - named.length });
  return pageOfSized([...named, ...others], page.limit);
}

/** Whether a turn has its agent. */
async function isNamed(tx: Tx, { run, number }: TurnPlace): Promise<boolean> {
  const [turn] = await tx.query<{ named: boolean }>(
    'select agent_id is not null as named from turns where run_id = $1 and number = $2',
    [run, number],
  );
  return turn?.named ?? false;
}

function listNamedTurns(tx: Tx, page: AgentPage): Promise<(ConversationRow & Sized)[]> {
  const ofTurn = (column: string) => `(select b.${column} from turns b where b.run_id = $2 and b.number = $3)`;
  const turns = `select ${SIZED} from ${TABLES}
     where u.agent_id = $1 and ($2::uuid is null or (u.created_at, u.id) < (${ofTurn('created_at')}, ${ofTurn('id')}))
     order by u.created_at desc, u.id desc limit $4`;
  return tx.query(numberedUntilFull(turns, ['created_at desc', 'id desc']), valuesOf(page));
}

function listUnnamedTurns(tx: Tx, page: AgentPage): Promise<(ConversationRow & Sized)[]> {
  const turns = `select ${SIZED} from ${TABLES}
     where r.agent_id = $1 and u.agent_id is null and ($2::uuid is null or r.id <= $2)
       and ($2::uuid is null or (r.id, u.number) < ($2::uuid, $3::int))
     order by r.id desc, u.number desc limit $4`;
  return tx.query(numberedUntilFull(turns, ['run_id desc', 'number desc']), valuesOf(page));
}

function valuesOf({ agentId, before, limit }: AgentPage): unknown[] {
  return [agentId, before?.run ?? null, before?.number ?? null, limit + 1];
}

/** A turn of a thread. */
export async function findThreadTurn(tx: Tx, threadId: string, id: string): Promise<ConversationRow | undefined> {
  const turns = `select ${COLUMNS} from ${TABLES} where u.id = $1 and r.thread_id = $2`;
  const rows = await tx.query<ConversationRow>(numbered(turns, 'page.number'), [id, threadId]);
  return rows[0];
}

/** Replaces a client's own data on a turn; false if the run is erased. Locks the run's row, as erasure does. */
export async function setTurnExtras(tx: Tx, turnId: string, extras: Record<string, unknown>): Promise<boolean> {
  const rows = await tx.query(
    `with run as (select r.id, r.tenant_id from runs r join turns t on t.run_id = r.id
       where t.id = $1 and r.erased_at is null for no key update of r)
     insert into turn_extras (turn_id, tenant_id, run_id, extras) select $1, run.tenant_id, run.id, $2::jsonb from run
     on conflict (turn_id) do update set extras = excluded.extras returning turn_id`,
    [turnId, JSON.stringify(extras)],
  );
  return rows.length > 0;
}
