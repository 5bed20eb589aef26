/** Finds runs, calls and approvals of all tenants that maintenance has to handle. Every query is bounded. */
import type { Database } from './database.ts';
import type { ModelPair } from './memory-models.ts';

interface LostRun {
  tenant_id: string;
  id: string;
  last_seq: number;
  fence: number;
  /** Time since its last change. */
  quiet_ms: number;
}

/** Which rows to examine: of one tenant, if given, and in pages. */
export interface LostFilter {
  quietMs: number;
  tenantId?: string | undefined;
  after: string;
  limit: number;
  /** Whether this installation makes vectors. */
  embeds: boolean;
  /** Vectors to replace: of agents that want the one model and have the other's. */
  replaced?: readonly ModelPair[] | undefined;
}

/** Excludes suspended work, which stays dormant until the suspension is lifted. `r` is the run. */
const NOT_SUSPENDED = `not exists (select from tenants n where n.id = r.tenant_id and n.suspended_by is not null)
         and not exists (select from agents n where n.id = r.agent_id and n.suspended_at is not null)`;

/**
 * Runs that nobody drives although they have something to do: no lease, an open turn that is not dormant or got something
 * since, and no queued call to wait for. Recently changed runs have a job under way. The cost depends on the number of runs to
 * drive, not of those that wait.
 */
export async function listLostRuns(db: Database, filter: LostFilter): Promise<LostRun[]> {
  return db.asMaintenance((tx) =>
    tx.query<LostRun>(
      `select r.tenant_id, r.id, r.last_seq, r.fence,
         (extract(epoch from clock_timestamp() - r.updated_at) * 1000)::float8 as quiet_ms from runs r
       where ($4::uuid is null or r.tenant_id = $4) and r.id > $2 and r.open_turn_id is not null and not r.dormant
         and r.status not in ('completed', 'failed', 'cancelled') and ${NOT_SUSPENDED}
         and r.updated_at < clock_timestamp() - $1 * interval '1 ms'
         and (r.driver_lease_expires_at is null or r.driver_lease_expires_at < clock_timestamp())
         and (r.status <> 'awaiting_tool' or not exists (
           select from tool_calls k where k.run_id = r.id and k.mode = 'queued' and k.status in ('pending', 'running')))
       order by r.id limit $3`,
      [filter.quietMs, filter.after, filter.limit, filter.tenantId ?? null],
    ),
  );
}

interface LostCall {
  tenant_id: string;
  run_id: string;
  id: string;
  attempt: number;
  traceparent: string | null;
}

/**
 * Queued calls that nobody makes: pending for a while, or running with an expired lease. If their run has ended, only calls
 * that were under way are included, to be settled, and settled ones that left work elsewhere, to be cancelled.
 */
export async function listLostCalls(db: Database, filter: LostFilter): Promise<LostCall[]> {
  return db.asMaintenance((tx) =>
    tx.query<LostCall>(
      `select k.tenant_id, k.run_id, k.id, k.attempt, k.traceparent from tool_calls k join runs r on r.id = k.run_id
       where ($4::uuid is null or k.tenant_id = $4) and k.status in ('pending', 'running') and k.mode = 'queued' and k.id > $2
         and (k.status = 'running' or ${NOT_SUSPENDED})
         and (r.status in ('awaiting_tool', 'awaiting_human') or k.status = 'running' and r.status in ('completed', 'failed', 'cancelled'))
         and r.updated_at < clock_timestamp() - $1 * interval '1 ms'
         and (k.lease_expires_at is null or k.lease_expires_at < clock_timestamp())
         and (k.retry_at is null or k.retry_at < clock_timestamp())
       union all
       select k.tenant_id, k.run_id, k.id, k.attempt, k.traceparent from tool_calls k join runs r on r.id = k.run_id
       where ($4::uuid is null or k.tenant_id = $4) and k.remote is not null and k.id > $2
         and k.status not in ('awaiting_approval', 'pending', 'running')
         and coalesce(k.finished_at, r.updated_at) < clock_timestamp() - $1 * interval '1 ms'
       order by 3 limit $3`,
      [filter.quietMs, filter.after, filter.limit, filter.tenantId ?? null],
    ),
  );
}

/** Of these runs, those whose turn may continue after queued calls: unfinished, and with open queued calls, or changed within `quietMs`. */
export async function listRunsAwaitingJobs(
  db: Database,
  { runIds, quietMs }: { runIds: readonly string[]; quietMs: number },
): Promise<string[]> {
  const rows = await db.asMaintenance((tx) =>
    tx.query<{ id: string }>(
      `select r.id from runs r where r.id = any($1::uuid[]) and (r.updated_at > clock_timestamp() - $2 * interval '1 ms'
         or r.status not in ('completed', 'failed', 'cancelled') and exists (
           select from tool_calls k where k.run_id = r.id and k.mode = 'queued' and k.status in ('pending', 'running')))`,
      [runIds, quietMs],
    ),
  );
  return rows.map(({ id }) => id);
}

/** Runs kept open that have been idle for `idleSeconds`. */
export async function listIdleRuns(
  db: Database,
  filter: { idleSeconds: number; limit: number },
): Promise<{ tenant_id: string; id: string; last_seq: number }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, id, last_seq from runs where idle_since < now() - $1 * interval '1 second'
         order by idle_since limit $2`,
      [filter.idleSeconds, filter.limit],
    ),
  );
}

/** Approvals whose time is up. */
export async function listDueApprovals(
  db: Database,
  limit: number,
): Promise<{ tenant_id: string; run_id: string | null; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, run_id, id from approvals where status = 'pending' and expires_at < now()
         order by expires_at limit $1`,
      [limit],
    ),
  );
}

/** Open questions about a call's unknown outcome whose call has ended after all. `offset 0`: the ledger is read by id, however many ask. */
export async function listAnsweredQuestions(db: Database, limit: number): Promise<{ tenant_id: string; id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select a.tenant_id, a.id from approvals a,
           lateral (select k.status from tool_calls k where k.id = a.tool_call_id offset 0) k
         where a.status = 'pending' and a.kind = 'unknown' and k.status <> 'unknown' order by a.id limit $1`,
      [limit],
    ),
  );
}

/**
 * Has prepared statements planned again for current table sizes. Postgres does so after each analyze; PGlite never analyzes by
 * itself, and would keep plans made for nearly empty tables.
 */
export async function renewPlans(db: Database): Promise<void> {
  if (db.kind === 'pglite') await db.asMaintenance((tx) => tx.query('discard plans'));
}
