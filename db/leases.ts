/** Leases of drivers and of tool call attempts. */
import { resultOf, type Database, type Tx } from './database.ts';

/** Renews a driver's lease; false if it has lost the run. */
export function renewRunLease(
  db: Database,
  lease: { tenantId: string; runId: string; fence: number; leaseMs: number },
): Promise<boolean> {
  return renew(db, 'renew_run_lease', [lease.tenantId, lease.runId, lease.fence, lease.leaseMs]);
}

/** Renews the lease of an attempt; false if another attempt or an outcome has replaced it. */
export function renewCallLease(
  db: Database,
  lease: { tenantId: string; callId: string; attempt: number; leaseMs: number },
): Promise<boolean> {
  return renew(db, 'renew_call_lease', [lease.tenantId, lease.callId, lease.attempt, lease.leaseMs]);
}

async function renew(
  db: Database,
  name: 'renew_run_lease' | 'renew_call_lease',
  values: readonly (string | number)[],
): Promise<boolean> {
  const text = `select ${name}($1, $2, $3, $4) as result`;
  return resultOf(await db.call<{ result: boolean }>({ name, text, values }));
}

/** Whether a driver currently holds a run, by database time. */
export async function isDriven(tx: Tx, runId: string): Promise<boolean> {
  const [row] = await tx.query<{ driven: boolean | null }>(
    'select driver_lease_expires_at > clock_timestamp() as driven from runs where id = $1',
    [runId],
  );
  return row?.driven ?? false;
}

/** Embedded mode: since this process holds the data directory's lock, all earlier leases are void. */
export async function voidLeases(db: Database): Promise<void> {
  await db.asMaintenance((tx) => tx.query('select void_leases()'));
}
