/** Rebuilds the projections (`PROJECTIONS`) from the logs, with the functions used in every commit. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { readEvent } from '../../core/events.ts';
import { PROJECTIONS, projectLog, type ProjectedTable, type RunOwner } from '../../core/projections.ts';
import type { Columns, Projection } from '../../core/projections/projection.ts';
import type { Database, Tx } from '../../db/database.ts';
import { nameFailedAgents } from '../../db/errors-index.ts';
import { readEvents } from '../../db/events.ts';
import { deleteRow, lockRunRow, insertRow, listLoggedRuns, readRows, updateRow } from '../../db/projections.ts';
import { listTenantIds } from '../../db/tenants.ts';

/** A column or row that differs from the log. */
interface Difference {
  runId: string;
  table: ProjectedTable;
  /** `id 0192…`, `seq 14`. */
  row: string;
  column: string;
  stored: unknown;
  expected: unknown;
}

interface Rebuilt {
  runs: number;
  differences: Difference[];
}

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const PAGE = 500;

/**
 * Compares every run of every tenant with its log, except columns that the log does not define; without `check`, also corrects
 * differences. One transaction for each run, under its row's lock; safe while the service is running. Throws
 * `UnknownEventError`.
 */
export async function rebuildProjections(db: Database, { check }: { check: boolean }): Promise<Rebuilt> {
  const rebuilt: Rebuilt = { runs: 0, differences: [] };
  for (const tenantId of await db.asMaintenance(listTenantIds)) {
    for (let after = FIRST_ID; ;) {
      const page = await db.withTenant(tenantId, (tx) => listLoggedRuns(tx, { after, limit: PAGE }));
      for (const { run_id: runId, workspace_id: workspaceId } of page) {
        rebuilt.differences.push(...(await rebuildRun(db, { tenantId, workspaceId, runId }, check)));
        rebuilt.runs += 1;
      }
      after = page.at(-1)?.run_id ?? after;
      if (page.length < PAGE) break;
    }
  }
  return rebuilt;
}

async function rebuildRun(db: Database, owner: RunOwner, check: boolean): Promise<Difference[]> {
  return db.withTenant(owner.tenantId, async (tx) => {
    await lockRunRow(tx, owner.runId);
    const log = await readEvents(tx, { runId: owner.runId, after: 0 });
    const rows = projectLog(owner, log.map(readEvent));
    const differences: Difference[] = [];
    for (const projection of PROJECTIONS) {
      const { table, key } = projection;
      const stored = await readRows(tx, projection, owner.runId);
      for (const pair of pairsOf(key, stored, rows[table])) {
        const found = compare(projection, pair);
        const row = `${key} ${String((pair.stored ?? pair.expected)?.[key])}`;
        differences.push(...found.map((difference) => ({ runId: owner.runId, table, row, ...difference })));
        if (!check && found.length > 0) await mend(tx, projection, pair);
      }
    }
    const failed = rows.turns.flatMap(({ id, status }) => (status === 'failed' ? [String(id)] : []));
    if (!check && differences.length > 0) await nameFailedAgents(tx, failed);
    return differences;
  });
}

/** A stored row, and the row according to the log; one may be missing. */
interface Pair {
  stored: Columns | undefined;
  expected: Columns | undefined;
}

function pairsOf(key: string, stored: readonly Columns[], expected: readonly Columns[]): Pair[] {
  const values = new Set([...stored, ...expected].map((row) => row[key]));
  const find = (rows: readonly Columns[], value: unknown) => rows.find((row) => row[key] === value);
  return [...values].map((value) => ({ stored: find(stored, value), expected: find(expected, value) }));
}

async function mend(tx: Tx, projection: Projection, { stored, expected }: Pair): Promise<void> {
  if (!expected) return stored && deleteRow(tx, projection, stored);
  return stored ? updateRow(tx, projection, expected) : insertRow(tx, projection, expected);
}

function compare({ columns }: Projection, { stored, expected }: Pair) {
  if (!stored || !expected) return [{ column: '*', stored: stored ?? null, expected: expected ?? null }];
  return columns
    .map((column) => ({ column, stored: stored[column] ?? null, expected: expected[column] ?? null }))
    .filter((pair) => canonicalJson(pair.stored) !== canonicalJson(pair.expected));
}
