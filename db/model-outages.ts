/** Outages of model providers that all workers share, and the runs that wait for their end. See `db/functions/model-outages.sql`. */
import { resultOf, type Database, type Tx } from './database.ts';

export interface OutageProblem {
  code: string;
  message: string;
}

/** Whether a run may ask a model; times are the database's. */
export type Entry =
  | { kind: 'open'; at: string }
  /** It asks for all that wait: once, and tells what came of it. */
  | { kind: 'probe'; at: string }
  | { kind: 'away'; at: string; next_at: string; error: OutageProblem }
  /** Its rate limiter backs off for so many ms. */
  | { kind: 'throttled'; ms: number };

/** Asks whether a run may ask the model, or is the one that asks for all, which no other does for `probeMs`. */
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

/** The name of the outage that calls of Drover's own tell each other of, beside that of runs (`enter_own_call`). */
export const ownOutage = (outage: string) => `${outage}#own`;

/** The same for a call that Drover makes for itself, which two outages may keep waiting: that of runs, and that of such calls. */
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

/** Notes that a model gave no answer; answers when it is asked next. `leastMs` is the pause that the provider asks for. */
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

/** Whether it is the one that asks for all about this outage. */
export async function isProbe(db: Database, { outage, runId }: { outage: string; runId: string }): Promise<boolean> {
  const rows = await db.call({
    name: 'is_probe',
    text: 'select 1 as one from model_outages where name = $1 and probing_run = $2',
    values: [outage, runId],
  });
  return rows.length > 0;
}

/** A run that was to ask for all does not: another one may. */
export async function leaveProbes(db: Database, runId: string): Promise<void> {
  await db.call({ name: 'leave_probes', text: 'select leave_probes($1)', values: [runId] });
}

/** The run that asks for all was answered: the outages that it asked about are over. */
export async function endModelOutages(db: Database, runId: string): Promise<void> {
  await db.call({ name: 'end_model_outages', text: 'select end_model_outages($1)', values: [runId] });
}

interface ParkedRun {
  tenant_id: string;
  run_id: string;
}

/**
 * Parked runs that are to go on, those that have waited longest first: an outage that they wait for is over, or their own
 * time is up; and for each outage whose next probe is due one run, which for `probeMs` is the only one to be named.
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

/** Forgets that a run is parked, under the run's lock; false if it was not. */
export async function unparkRun(tx: Tx, runId: string): Promise<boolean> {
  const rows = await tx.query('delete from parked_runs where run_id = $1 returning run_id', [runId]);
  return rows.length > 0;
}
