/** The leases of drivers and of tool calls' attempts, renewed while the work goes on. */
import { resultOf, type Database } from './database.ts';

/** Renews a driver's lease; false where it has lost the run. */
export async function renewRunLease(
  db: Database,
  lease: { tenant: string; run: string; fence: number; leaseMs: number },
): Promise<boolean> {
  const rows = await db.call<{ result: boolean }>({
    name: 'renew_run_lease',
    text: 'select renew_run_lease($1, $2, $3, $4) as result',
    values: [lease.tenant, lease.run, lease.fence, lease.leaseMs],
  });
  return resultOf(rows);
}

/** Renews the lease of a tool call's attempt; false where another attempt or an outcome has taken its place. */
export async function renewCallLease(
  db: Database,
  lease: { tenant: string; call: string; attempt: number; leaseMs: number },
): Promise<boolean> {
  const rows = await db.call<{ result: boolean }>({
    name: 'renew_call_lease',
    text: 'select renew_call_lease($1, $2, $3, $4) as result',
    values: [lease.tenant, lease.call, lease.attempt, lease.leaseMs],
  });
  return resultOf(rows);
}
