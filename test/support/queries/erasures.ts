/** Erasures, and what they have left, as tests look at them. */
import { rows, tamper, type Owner, type Tenant } from './access.ts';

/** As if nobody had been at any erasure for a minute. */
export function makeErasuresDue(owner: Owner): Promise<void> {
  return tamper(owner, 'update erasures set due_at = clock_timestamp()');
}

/** What is still to be erased. */
export function openErasures(tenant: Tenant): Promise<{ kind: string; id: string }[]> {
  return rows(tenant, 'select kind, id from erasures order by id');
}

/** The runs of a thread whose content is still there. */
export function unerasedRunsOn(tenant: Tenant, thread: string): Promise<{ id: string }[]> {
  return rows(tenant, 'select id from runs where thread_id = $1 and erased_at is null', thread);
}
