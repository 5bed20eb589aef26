/** Retention for data beside the logs: finished rows are kept for a while, for reading, then deleted. */
import { LIMITS } from '../../core/limits.ts';
import type { Database } from '../../db/database.ts';
import { forgetOld, type Forgettable } from '../../db/retention.ts';
import type { Context } from '../governance/context.ts';
import { forEachIsolated } from '../for-each-isolated.ts';

const HOURS: Record<Forgettable, number> = {
  idempotency_keys: LIMITS.idempotencyHours,
  webhook_deliveries: 24 * LIMITS.webhookLogDays,
  webhooks: LIMITS.pushConfigHours,
  waits: 24 * LIMITS.settledDays,
  signals: 24 * LIMITS.settledDays,
  reservations: 24 * LIMITS.settledDays,
  own_model_calls: 24 * (LIMITS.settledDays + 1),
  memory_accesses: 24 * LIMITS.memoryAccessDays,
  memory_extractions: 24 * LIMITS.memoryAccessDays,
  model_outages: 24,
  rate_counts: 1,
};

/** For one table; the rest goes the next time. */
const MOST_MS = 60_000;

/** Deletes old rows of each table in small transactions; returns how many, by table. */
export async function forgetOldRows({ db, log }: Context): Promise<Record<string, number>> {
  const rows = Object.entries(HOURS).map(([table, hours]) => ({ table: table as Forgettable, hours }));
  const done = await forEachIsolated(log, { rows }, async (of) => [of.table, await forgetRows(db, of)] as const);
  return Object.fromEntries(done);
}

async function forgetRows(db: Database, of: { table: Forgettable; hours: number }): Promise<number> {
  const limit = LIMITS.sweepRows;
  const endsAtMs = performance.now() + MOST_MS;
  for (let forgotten = 0; ;) {
    const rows = await forgetOld(db, { ...of, limit });
    forgotten += rows;
    if (rows < limit || performance.now() > endsAtMs) return forgotten;
  }
}
