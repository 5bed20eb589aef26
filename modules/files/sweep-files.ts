/** Removes contents without a file: those of deleted files, and of interrupted uploads. */
import { LIMITS } from '../../core/limits.ts';
import {
  claimGarbage,
  deleteFilesWithoutRun,
  forgetContent,
  listFilesWithoutRun,
  listGarbage,
  listOwnGarbage,
} from '../../db/files.ts';
import { withDeadline } from '../../lib/deadline.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import { keyOf, type FileContext } from './content.ts';

interface Garbage {
  tenant_id: string;
  id: string;
}

const AT_A_TIME = 8;
/** For which a request waits until contents are gone from the store. */
const AWAITED_MS = 2500;

/** One act of maintenance for all tenants; returns how many contents were removed. */
export async function sweepFiles(context: FileContext): Promise<number> {
  if (!context.fileStore) return 0;
  const orphans = await listFilesWithoutRun(context.db, LIMITS.sweepRows);
  await forEachIsolated(context.log, { rows: orphans }, ({ tenant_id, run_id }) =>
    context.db.withTenant(tenant_id, (tx) => deleteFilesWithoutRun(tx, run_id)),
  );
  const rows = await listGarbage(context.db, {
    writingHours: LIMITS.unfinishedFileHours,
    limit: LIMITS.sweepRows,
  });
  const done = await forEachIsolated(context.log, { rows, atATime: AT_A_TIME }, (row) => sweepContent(context, row));
  return done.filter(Boolean).length;
}

/**
 * Sweeps at once for a tenant that has deleted something, its newest first. Failures, and what takes long, are left to
 * maintenance.
 */
export async function sweepTenant(context: FileContext, tenantId: string): Promise<void> {
  if (!context.fileStore) return;
  const own = await context.db.withTenant(tenantId, (tx) => listOwnGarbage(tx, LIMITS.sweepRows));
  const rows = own.map(({ id }) => ({ tenant_id: tenantId, id }));
  const sweeping = forEachIsolated(context.log, { rows, atATime: AT_A_TIME, withinMs: AWAITED_MS }, (row) =>
    sweepContent(context, row),
  );
  await awaitShortly(context, sweeping);
}

/** Waits a short while for a sweep in whose request somebody waits; it may go on, and its failure is only logged. */
export async function awaitShortly({ log }: Pick<FileContext, 'log'>, sweep: Promise<unknown>): Promise<void> {
  await withDeadline(sweep, AWAITED_MS, 'the file store takes long').catch((error: unknown) => {
    log.warn({ err: error }, 'contents that no file has are left to maintenance');
  });
}

/** First from the store, then from the database, so that an interrupted sweep is repeated. */
export async function sweepContent({ db, fileStore }: FileContext, { tenant_id, id }: Garbage): Promise<boolean> {
  if (!fileStore) return false;
  if (!(await db.withTenant(tenant_id, (tx) => claimGarbage(tx, id)))) return false;
  await fileStore.delete(keyOf({ tenantId: tenant_id, id }));
  await db.withTenant(tenant_id, (tx) => forgetContent(tx, id));
  return true;
}
