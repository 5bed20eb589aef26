/** Rebuilds the projections (`KEYS`) from the logs, by the function that projects them in every commit. */
import { canonicalJson } from '../../core/ids.ts';
import { readEvent } from '../../core/events.ts';
import { OPERATIONAL } from '../../core/project.ts';
import { projectLog, type ProjectedRows } from '../../core/projected-rows.ts';
import type { Database, Tx } from '../../db/database.ts';
import { readEvents } from '../../db/events.ts';
import {
  listLoggedRuns,
  readStoredRows,
  replacePlans,
  replacePolicyDecisions,
  replaceTurns,
  writeApproval,
  writeRun,
  type StoredRows,
} from '../../db/projections.ts';
import { listTenantIds } from '../../db/tenants.ts';

type Columns = Record<string, unknown>;

/** A column, or a whole row, that is not what the log says. */
export interface Difference {
  runId: string;
  table: keyof typeof KEYS;
  /** `turn 2`, `seq 14`; empty for the run's own row. */
  row: string;
  column: string;
  stored: unknown;
  expected: unknown;
}

export interface Rebuilt {
  runs: number;
  differences: Difference[];
}

/** What tells the rows of a run apart. */
const KEYS = {
  runs: 'id',
  turns: 'number',
  approvals: 'id',
  policy_decisions: 'seq',
  plans: 'id',
} as const;

/** Columns of `approvals` that come from the ledger and from the time of the commit. */
const NOT_IN_THE_LOG = ['arguments', 'original_arguments', 'expires_at'];

const FIRST_ID = '00000000-0000-0000-0000-000000000000';
const PAGE = 500;

/**
 * Compares every run of every tenant with its log, operational columns aside, and unless `check` writes what differs.
 * One transaction a run, which holds the run's row; safe beside a running service. Throws `UnknownEventError`.
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

interface Owner {
  tenantId: string;
  workspaceId: string;
  runId: string;
}

async function rebuildRun(db: Database, owner: Owner, check: boolean): Promise<Difference[]> {
  return db.withTenant(owner.tenantId, async (tx) => {
    const stored = await readStoredRows(tx, owner.runId);
    const log = await readEvents(tx, { run: owner.runId, after: 0 });
    const rows = projectLog(owner, log.map(readEvent));
    const found = differencesOf(owner.runId, stored, rows);
    const lastSeq = log.at(-1)?.seq ?? 0;
    if (!check) await write(tx, { rows, found, lastSeq, at: log.at(-1)?.occurred_at ?? '' });
    return found;
  });
}

interface Written {
  rows: ProjectedRows;
  found: readonly Difference[];
  lastSeq: number;
  at: string;
}

async function write(tx: Tx, { rows, found, lastSeq, at }: Written): Promise<void> {
  if (found.some(({ table }) => table === 'runs')) {
    const operational = { last_seq: lastSeq, fence: 0, dormant: false, updated_at: at };
    await writeRun(tx, withoutOperational(rows.run), operational);
  }
  for (const approval of rows.approvals) {
    if (found.some(({ table, row }) => table === 'approvals' && row.endsWith(String(approval['id'])))) {
      await writeApproval(tx, approval);
    }
  }
  if (found.some(({ table }) => table === 'turns')) await replaceTurns(tx, String(rows.run['id']), rows.turns);
  if (found.some(({ table }) => table === 'plans')) await replacePlans(tx, String(rows.run['id']), rows.plans);
  if (found.some(({ table }) => table === 'policy_decisions')) {
    await replacePolicyDecisions(tx, String(rows.run['id']), rows.policy_decisions);
  }
}

function withoutOperational(row: Columns): Columns {
  return Object.fromEntries(Object.entries(row).filter(([column]) => !isOperational(column)));
}

const isOperational = (column: string) => [...OPERATIONAL, ...NOT_IN_THE_LOG].includes(column);

function differencesOf(runId: string, stored: StoredRows, expected: ProjectedRows): Difference[] {
  const lists = [
    { table: 'runs' as const, stored: stored.run ? [stored.run] : [], expected: [expected.run] },
    { table: 'turns' as const, stored: stored.turns, expected: expected.turns },
    { table: 'approvals' as const, stored: stored.approvals, expected: expected.approvals },
    { table: 'plans' as const, stored: stored.plans, expected: expected.plans },
    { table: 'policy_decisions' as const, stored: stored.policy_decisions, expected: expected.policy_decisions },
  ];
  return lists.flatMap(({ table, ...rows }) => {
    const key = KEYS[table];
    const keys = new Set([...rows.stored, ...rows.expected].map((row) => row[key]));
    return [...keys].flatMap((value) => {
      const find = (list: readonly Columns[]) => list.find((row) => row[key] === value);
      const found = compare(find(rows.stored), find(rows.expected));
      return found.map((difference) => ({ runId, table, row: `${key} ${String(value)}`, ...difference }));
    });
  });
}

function compare(stored: Columns | undefined, expected: Columns | undefined) {
  if (!stored || !expected) return [{ column: '*', stored: stored ?? null, expected: expected ?? null }];
  return Object.keys(stored)
    .filter((column) => !isOperational(column))
    .map((column) => ({ column, stored: stored[column] ?? null, expected: expected[column] ?? null }))
    .filter((pair) => canonicalJson(pair.stored) !== canonicalJson(pair.expected));
}
