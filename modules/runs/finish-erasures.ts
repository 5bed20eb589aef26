/** Finishes erasures whose processes have died, or were not given the time. */
import { giveBackErasure, takeDueErasure, type ErasureRow } from '../../db/erasures.ts';
import type { AuditedBy } from '../audit/record-audit.ts';
import { forEachIsolated, whileRoundLasts } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { carryOutErasure } from './erasing/carry-out-erasure.ts';

/** For the runs of one erasure, before the others get their turn. */
const TURN_MS = 2000;

/** One act of maintenance for all tenants; returns how many erasures were finished. */
export async function finishErasures(context: Context): Promise<number> {
  return whileRoundLasts(async () => {
    const row = await takeDueErasure(context.db);
    if (!row) return { done: 0, hasMore: false };
    const [isDone = false] = await forEachIsolated(context.log, { rows: [row] }, () => goOn(context, row));
    return { done: Number(isDone), hasMore: true };
  });
}

async function goOn(context: Context, row: ErasureRow): Promise<boolean> {
  const by = { ...row.asked_by, tenantId: row.tenant_id } as AuditedBy;
  const { kind, id, dependents } = row;
  const { isDone } = await carryOutErasure(context, { kind, id, dependents, by }, TURN_MS);
  if (!isDone) await context.db.withTenant(row.tenant_id, (tx) => giveBackErasure(tx, row));
  return isDone;
}
