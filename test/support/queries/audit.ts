/** The audit log, as tests read it and tamper with it. */
import type { Database } from '../../../db/database.ts';
import { listAuditRows, type AuditRow } from '../../../db/audit.ts';
import { rowsAsOwner, type Tenant } from './access.ts';

/** What was done to something, oldest first. */
export async function auditOf({ context, tenantId }: Tenant, targetId: string | undefined): Promise<AuditRow[]> {
  const found = await context.db.withTenant(tenantId, (tx) => listAuditRows(tx, { targetId, limit: 1000 }));
  return found.toReversed();
}

/** One statement past row level security, as only somebody with all rights can run it. */
export async function tamperWithAudit(db: Pick<Database, 'asOwner'>, sql: string): Promise<void> {
  const force = async (how: string) => {
    for (const table of ['audit_log', 'audit_heads']) await rowsAsOwner(db, `alter table ${table} ${how}`);
  };
  await force('no force row level security');
  try {
    await rowsAsOwner(db, sql);
  } finally {
    await force('force row level security');
  }
}

/** Takes the details out of the second row of every chain. */
export function spoilSecondAuditRow(db: Pick<Database, 'asOwner'>): Promise<void> {
  return tamperWithAudit(db, `update audit_log set details = '{}' where seq = 2`);
}
