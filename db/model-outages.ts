/** Outages of model providers, shared by all workers, and the runs that wait for their end. See `db/functions/model-outages.sql`. */
import { resultOf, type Database, type Tx } from './database.ts';

export interface OutageProblem {
  code: string;
  message: string;
}

/** The outages that a probe asks about, by name, and since when they last: so its outcome counts for no later outage. */
export type Probed = Readonly<Record<string, string>>;

/** Whether a run may call a model; times are database time. */
export type Entry =
  /** `met`: an outage that another run alone has met, and that is over if this call is answered. */
  | { kind: 'open'; at: string; met?: Probed }
  /** It probes for all waiting runs: one call, whose outcome it reports. */
  | { kind: 'probe'; at: string; probed: Probed }
  | { kind: 'away'; at: string; next_at: string; error: OutageProblem }
  /** Its rate limiter backs off for this many ms. */
  | { kind: 'throttled'; ms: number };

/** Whether a run may call the model, or becomes the probe, the only one for `probeMs`. */
export async function enterModel(
  db: Database,
  entering: { outage: string; rateLimiter: string; runId: string; probeMs: number },
): Promise<Entry> {
  const rows = await db.call<{ result: Entry }>({
    name: 'enter_model',
    text: 'select enter_model($1, $2, $3, $4) as result',
    values: [entering.outage, entering.rateLimiter, entering.runId, entering.probeMs],
  });
  return resultOf(rows);
}

/** The name of the outage for Drover's own calls, besides that of runs (`enter_own_call`). */
export const ownOutage = (outage: string) => `${outage}#own`;

/** Like `enterModel`, for a call of Drover's own, which waits for two outages: that of runs, and that of own calls. */
export async function enterOwnCall(
  db: Database,
  { outage, rateLimiter, asker, probeMs }: { outage: string; rateLimiter: string; asker: string; probeMs: number },
): Promise<Entry> {
  const rows = await db.call<{ result: Entry }>({
    name: 'enter_own_call',
    text: 'select enter_own_call($1, $2, $3, $4) as result',
    values: [outage, rateLimiter, asker, probeMs],
  });
  return resultOf(rows);
}

/** A model's failure; `leastMs`: pause requested by the provider. */
export interface NotedFailure {
  outage: string;
  runId: string;
  problem: OutageProblem;
  leastMs: number;
  mostMs: number;
}

/** The database's time, and that of the next attempt. */
interface NotedTimes {
  at: string;
  next_at: string;
}

/** Records that a model failed. */
export async function noteModelOutage(db: Database, noted: NotedFailure): Promise<NotedTimes> {
  const { outage, runId, problem, leastMs, mostMs } = noted;
  const rows = await db.call<{ result: NotedTimes }>({
    name: 'note_model_outage',
    text: 'select note_model_outage($1, $2, $3::jsonb, $4, $5) as result',
    values: [outage, runId, JSON.stringify(problem), Math.ceil(leastMs), mostMs],
  });
  return resultOf(rows);
}

/** The same of a probe of an outage, by `since` when it lasts; null if that is over, since others were answered meanwhile. */
export async function noteProbeFailure(
  db: Database,
  { outage, since, runId, problem, leastMs, mostMs }: NotedFailure & { since: string },
): Promise<NotedTimes | null> {
  const rows = await db.call<{ result: NotedTimes | null }>({
    name: 'note_probe_failure',
    text: 'select note_probe_failure($1, $2, $3, $4::jsonb, $5, $6) as result',
    values: [outage, since, runId, JSON.stringify(problem), Math.ceil(leastMs), mostMs],
  });
  return resultOf(rows);
}

/** A probing run does not call after all: another one may. */
export async function leaveProbes(db: Database, runId: string): Promise<void> {
  await db.call({ name: 'leave_probes', text: 'select leave_probes($1)', values: [runId] });
}

/** A probing run got an answer: the outages that it probed are over, even if another one probes them by now. */
export async function endProbedOutages(
  db: Database,
  { runId, probed }: { runId: string; probed: Probed },
): Promise<void> {
  await db.call({
    name: 'end_probed_outages',
    text: 'select end_probed_outages($1, $2::jsonb)',
    values: [runId, JSON.stringify(probed)],
  });
}

interface ParkedRun {
  tenant_id: string;
  run_id: string;
}

/**
 * Claims parked runs that can continue, longest waiting first: an outage they wait for or their own time is over. In addition
 * one run for each outage whose next probe is due, exclusively for `probeMs`.
 */
export async function claimRunsToWake(db: Database, claim: { limit: number; probeMs: number }): Promise<ParkedRun[]> {
  return db.asMaintenance(async (tx) => {
    const over = await tx.query<ParkedRun>(
      `select p.tenant_id, p.run_id from parked_runs p left join model_outages o on o.name = p.outage
         where o.name is null or p.until <= clock_timestamp()
         group by p.tenant_id, p.run_id order by min(p.parked_at) limit $1`,
      [claim.limit],
    );
    const probes = await tx.query<ParkedRun>(
      `with due as (
         select name from model_outages where next_at <= clock_timestamp()
           and (probing_until is null or probing_until <= clock_timestamp()) for update skip locked),
       first as (
         select d.name, p.run_id, p.tenant_id from due d cross join lateral (
           select run_id, tenant_id from parked_runs p where p.outage = d.name order by p.parked_at limit 1) p)
       update model_outages o set probing_run = first.run_id, probing_until = clock_timestamp() + $1 * interval '1 ms'
         from first where o.name = first.name returning first.tenant_id, first.run_id`,
      [claim.probeMs],
    );
    const named = new Set(over.map(({ run_id }) => run_id));
    return [...over, ...probes.filter(({ run_id }) => !named.has(run_id))];
  });
}

/** Removes a run from the parked ones, under its lock; false if it was not parked. */
export async function unparkRun(tx: Tx, runId: string): Promise<boolean> {
  const rows = await tx.query('delete from parked_runs where run_id = $1 returning run_id', [runId]);
  return rows.length > 0;
}
