/** Runs' waits for something outside. `commit_run` opens and closes them; maintenance finds due ones. */
import type { WaitType } from '../core/waits.ts';
import type { Database, Tx } from './database.ts';

export interface WaitRow {
  id: string;
  tenant_id: string;
  run_id: string;
  turn_id: string;
  type: WaitType;
  name: string | null;
}

const WAIT = 'id, tenant_id, run_id, turn_id, type, name';

/** A call for the client to execute, and when the client was asked. */
export interface ClientCall {
  id: string;
  tool_use_id: string;
  waited_ms: number;
}

/** A run's calls that wait for the client, in order. */
export async function listClientCalls(tx: Tx, runId: string): Promise<ClientCall[]> {
  return tx.query<ClientCall>(
    `select k.id, k.tool_use_id, (extract(epoch from clock_timestamp() - w.created_at) * 1000)::int as waited_ms
     from waits w join tool_calls k on k.id = w.id
     where w.run_id = $1 and w.closed_at is null and w.type = 'tool_results' and k.status = 'running'
     order by k.step, k.place`,
    [runId],
  );
}

/** The first open wait of a run that a signal of this type and name would answer. */
export async function findAnsweredWait(
  tx: Tx,
  signal: { runId: string; type: string; name: string | null },
): Promise<WaitRow | undefined> {
  const [row] = await tx.query<WaitRow>(
    `select ${WAIT} from waits where run_id = $1 and closed_at is null and type = $2 and name is not distinct from $3
     order by created_at, id limit 1`,
    [signal.runId, signal.type, signal.name],
  );
  return row;
}

/** An open wait of a run. */
export async function findOpenWait(tx: Tx, runId: string, id: string): Promise<WaitRow | undefined> {
  const [row] = await tx.query<WaitRow>(
    `select ${WAIT} from waits where id = $1 and run_id = $2 and closed_at is null`,
    [id, runId],
  );
  return row;
}

/** Of a run's open questions, the one shown as what it waits for. */
export async function findShownQuestion(tx: Tx, runId: string): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    `select id from waits where run_id = $1 and closed_at is null and type = 'user' order by until, id limit 1`,
    [runId],
  );
  return row?.id;
}

/** Something that can be answered: a wait or an approval. */
export interface Answerable {
  id: string;
  type: Exclude<WaitType, 'child'> | 'approval';
  name: string | null;
  /** For a call that the client must execute. */
  tool_use_id: string | null;
  /** It asks what became of a call of unknown outcome. */
  is_unknown: boolean;
}

/** All that can be answered of a run, oldest first; without ends of children, which nobody can answer. */
export async function listAnswerable(tx: Tx, runId: string): Promise<Answerable[]> {
  return tx.query<Answerable>(
    `select id, type, name, tool_use_id, is_unknown from (
       select w.id, w.type, w.name, k.tool_use_id, false as is_unknown, w.created_at from waits w join tool_calls k on k.id = w.id
         where w.run_id = $1 and w.closed_at is null and w.type <> 'child'
       union all
       select id, 'approval', null, null, kind = 'unknown', created_at from approvals where run_id = $1 and status = 'pending') o
     order by created_at, id`,
    [runId],
  );
}

/**
 * Whether a run needs an answer from a person or another system to continue. Not while its driver is to go on with a call that
 * was answered or approved: a dormant run's has done so. Nor while a call is at work that somebody has approved by itself, who
 * waits for what comes of it; what is asked besides was asked before.
 */
export async function isAsking(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ asking: boolean }>(
    `select (exists (select from waits where run_id = $1 and closed_at is null and type in ('user', 'webhook'))
       or exists (select from approvals where run_id = $1 and status = 'pending'))
       and not exists (select from tool_calls k where k.run_id = $1 and k.status in ('pending', 'running') and k.remote is null
         and case when k.mode = 'wait' or k.status = 'pending' and not r.dormant
           then k.status = 'pending' or exists (select from waits w where w.id = k.id and w.closed_at is not null)
           else exists (select from approvals a where a.run_id = $1 and a.tool_call_id = k.id and a.status <> 'pending') end) as asking
     from runs r where r.id = $1`,
    [runId],
  );
  return row?.asking ?? false;
}

/** The wait that a webhook's token belongs to, in any tenant. */
export async function findWaitByToken(db: Database, tokenHash: Buffer): Promise<WaitRow | undefined> {
  const [row] = await db.asMaintenance((tx) =>
    tx.query<WaitRow>(`select ${WAIT} from waits where token_hash = $1`, [tokenHash]),
  );
  return row;
}

/** Sealed tokens of a run's open webhooks. */
export async function listWebhookTokens(
  tx: Tx,
  runId: string,
): Promise<{ id: string; key_id: string; sealed: Buffer }[]> {
  return tx.query(
    `select id, token_key_id as key_id, token_sealed as sealed from waits
     where run_id = $1 and closed_at is null and type = 'webhook'`,
    [runId],
  );
}

/** A page, by id, of the tenant's open waits whose tokens are encrypted under another key than `keyId`. */
export async function listWebhookTokensUnderOtherKeys(
  tx: Tx,
  { keyId, after, limit }: { keyId: string; after: string | undefined; limit: number },
): Promise<{ id: string; key_id: string; sealed: Buffer }[]> {
  return tx.query(
    `select id, token_key_id as key_id, token_sealed as sealed from waits
     where closed_at is null and token_key_id <> $1 and ($2::uuid is null or id > $2) order by id limit $3`,
    [keyId, after ?? null, limit],
  );
}

/** Re-encrypts a token; false if it was erased meanwhile. */
export async function resealWebhookToken(
  tx: Tx,
  id: string,
  change: { from: Buffer; to: { keyId: string; sealed: Buffer } },
): Promise<boolean> {
  const rows = await tx.query(
    'update waits set token_key_id = $3, token_sealed = $4 where id = $1 and token_sealed = $2 returning id',
    [id, change.from, change.to.keyId, change.to.sealed],
  );
  return rows.length > 0;
}

/** A run's open waits whose time is up. */
export async function listDueWaits(tx: Tx, runId: string): Promise<(WaitRow & { until: Date })[]> {
  return tx.query(
    `select ${WAIT}, until from waits where run_id = $1 and closed_at is null and until <= clock_timestamp() order by until, id`,
    [runId],
  );
}

/**
 * Claims runs with waits whose time is up, in all tenants, for `claimMs`: no two processes get the same ones, and a dead
 * process's become free again after that.
 */
export async function claimDueWaits(
  db: Database,
  claim: { limit: number; claimMs: number },
): Promise<{ tenant_id: string; run_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `with due as (${DUE_WAITS}), claimed as (
         update waits w set claimed_until = clock_timestamp() + $2 * interval '1 ms' from due where w.id = due.id
         returning w.tenant_id, w.run_id)
       select distinct tenant_id, run_id from claimed`,
      [claim.limit, claim.claimMs],
    ),
  );
}

/** `$1` is the limit. */
export const DUE_WAITS = `select id from waits where closed_at is null and until <= now()
  and (claimed_until is null or claimed_until <= clock_timestamp()) order by until limit $1 for update skip locked`;
