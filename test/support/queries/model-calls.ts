/** Drover's own model calls, providers that are away and runs that wait for them, as tests read and change them. */
import type { Database } from '../../../db/database.ts';
import { row, rows, rowsOfAll, tamper, type Owner, type Tenant } from './access.ts';

interface OwnCall {
  state: string;
  purpose: string;
  cost_usd: string;
  /** The state of what was set aside for it. */
  reserved: string;
  error_code: string | null;
}

/** In the order in which they were made. */
export function ownCalls(tenant: Tenant): Promise<OwnCall[]> {
  return rows(
    tenant,
    `select o.state, o.purpose, o.cost_usd, r.state as reserved, o.error_code from own_model_calls o
       join reservations r on r.run_id = o.id order by o.created_at`,
  );
}

/** What a request for embeddings has used, and for whom. */
interface EmbeddingCall {
  purpose: string;
  model: string;
  state: string;
  tokens_in: number;
  cost_usd: string | null;
  agent_id: string | null;
  run_id: string | null;
  error_code: string | null;
  /** What is set aside for it, or was settled, and that state. */
  tokens: number;
  reserved: string;
}

/** In the order in which they were made. */
export function embeddingCalls(tenant: Tenant): Promise<EmbeddingCall[]> {
  return rows(
    tenant,
    `select o.purpose, o.model, o.state, o.tokens_in, o.cost_usd, o.agent_id, o.run_id, o.error_code, r.tokens, r.state as reserved
       from own_model_calls o join reservations r on r.run_id = o.id where o.purpose like '%embeddings' order by o.created_at`,
  );
}

/** What the calls for an agent were for. */
export async function purposesOf(tenant: Tenant, agent: string): Promise<string[]> {
  const sql = 'select purpose from own_model_calls where agent_id = $1 order by created_at';
  return (await rows<{ purpose: string }>(tenant, sql, agent)).map(({ purpose }) => purpose);
}

export function ownCallsOnThread(tenant: Tenant, thread: string): Promise<object[]> {
  return rows(tenant, 'select * from own_model_calls where thread_id = $1', thread);
}

/** As if none had ever been made, and no budget been there. */
export async function forgetOwnCalls(tenant: Tenant): Promise<void> {
  await rows(tenant, 'with o as (delete from own_model_calls), b as (delete from budgets) delete from reservations');
}

/** As if every call, for which so many tokens were set aside, had been under way for a day. */
export async function reopenOwnCalls(tenant: Tenant, tokens: number): Promise<void> {
  await rows(tenant, `update own_model_calls set state = 'open', created_at = now() - interval '1 day'`);
  await rows(tenant, `update reservations set state = 'open', tokens = $1, rolled_up = false`, tokens);
}

/** As if a build that gives calls no lease had begun every call so long ago. */
export async function beforeLeases(tenant: Tenant, ago: string): Promise<void> {
  const sql = `update own_model_calls set lease_expires_at = null, created_at = now() - $1::interval`;
  await rows(tenant, sql, ago);
}

/** As if every call had begun so long ago, and its lease been renewed since. */
export async function longUnderWay(tenant: Tenant, ago: string): Promise<void> {
  await rows(tenant, 'update own_model_calls set created_at = now() - $1::interval', ago);
}

/** Whether the lease that the only call began with is over, and another one is not. */
export async function hasOutlivedLease(tenant: Tenant, leaseMs: number): Promise<boolean> {
  const sql = `select created_at + $1 * interval '1 ms' < clock_timestamp() and lease_expires_at > clock_timestamp() as outlived
     from own_model_calls`;
  return (await row<{ outlived: boolean }>(tenant, sql, leaseMs)).outlived;
}

/** As if the time for which models are not to be asked had passed. */
export async function openGates(tenant: Tenant): Promise<void> {
  await rows(tenant, 'update model_rates set closed_until = clock_timestamp()');
}

/** As if no provider had ever been away. */
export async function forgetOutages(db: Database): Promise<void> {
  await rowsOfAll(db, 'delete from model_outages');
}

/** How often each provider that is away has failed. */
export function failuresOfOutages(tenant: Tenant): Promise<{ failures: number }[]> {
  return rows(tenant, 'select failures from model_outages');
}

/** As if the time until every provider that is away may be asked again had passed. */
export function makeOutagesDue(owner: Owner): Promise<void> {
  return tamper(owner, `update model_outages set next_at = now() - interval '1 second'`);
}

/** As if the time until a provider that is away may be asked again were long. */
export function makeOutagesLong(owner: Owner): Promise<void> {
  return tamper(owner, `update model_outages set next_at = now() + interval '1 hour'`);
}

/** As if nobody had asked for long after that time. */
export function leaveOutages(owner: Owner): Promise<void> {
  return tamper(owner, `update model_outages set next_at = now() - interval '2 minutes'`);
}

/** As if the time of those that ask had passed. */
export function endProbes(owner: Owner): Promise<void> {
  return tamper(owner, `update model_outages set probing_until = now() - interval '1 second'`);
}

/** As if so much time had passed for every provider that is away. */
export function ageOutages(owner: Owner, ms: number): Promise<void> {
  const sql = `update model_outages set next_at = next_at - $1 * interval '1 ms', probing_until = probing_until - $1 * interval '1 ms'`;
  return tamper(owner, sql, ms);
}

/** Runs that wait for a provider. */
export function parkedRuns(tenant: Tenant): Promise<{ run_id: string }[]> {
  return rows(tenant, 'select run_id from parked_runs');
}

/** Those of them that have waited as long as they may. */
export function overdueRuns(tenant: Tenant): Promise<{ run_id: string }[]> {
  return rows(tenant, 'select run_id from parked_runs where until <= clock_timestamp()');
}

/** As if a run had waited for its provider as long as it may. */
export function endParking(owner: Owner, run: string): Promise<void> {
  return tamper(owner, `update parked_runs set until = now() - interval '1 second' where run_id = $1`, run);
}
