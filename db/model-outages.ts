/** Outages of model providers, shared by all workers, and the runs that wait for their end. See `db/functions/model-outages.sql`. */
import { resultOf, type Database, type Tx } from './database.ts';

export interface OutageProblem {
  code: string;
  message: string;
}

/** Whether a run may call a model; times are database time. */
export type Entry =
  | { kind: 'open'; at: string }
  /** It probes for all waiting runs: one call, whose outcome it reports. */
  | { kind: 'probe'; at: string }
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

/** Records that a model failed; returns the time of the next attempt. `leastMs`: pause requested by the provider. */
export async function noteModelOutage(
  db: Database,
  noted: { outage: string; runId: string; problem: OutageProblem; leastMs: number; mostMs: number },
): Promise<{ at: string; next_at: string }> {
  const { outage, runId, problem, leastMs, mostMs } = noted;
  const rows = await db.call<{ result: { at: string; next_at: string } }>({
    name: 'note_model_outage',
    text: 'select note_model_outage($1, $2, $3::jsonb, $4, $5) as result',
    values: [outage, runId, JSON.stringify(problem), Math.ceil(leastMs), mostMs],
  });
  return resultOf(rows);
}

/** Whether a run is the probe of this outage. */
export async function isProbe(db: Database, { outage, runId }: { outage: string; runId: string }): Promise<boolean> {
  const rows = await db.call({
    name: 'is_probe',
    text: 'select 1 as one from model_outages where name = $1 and probing_run = $2',
    values: [outage, runId],
  });
  return rows.length > 0;
}

/** A probing run does not call after all: another one may. */
export async function leaveProbes(db: Database, runId: string): Promise<void> {
  await db.call({ name: 'leave_probes', text: 'select leave_probes($1)', values: [runId] });
}

/** A probing run got an answer: the outages that it probed are over. */
export async function endModelOutages(db: Database, runId: string): Promise<void> {
  await db.call({ name: 'end_model_outages', text: 'select end_model_outages($1)', values: [runId] });
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
