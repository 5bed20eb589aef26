/**
 * Derives rows from events, both for commits and for rebuilding from the log. A new projection needs a file in
 * `core/projections/`, its line here, its migration, and `db/functions/apply-<table>.sql`.
 */
import type { NewEvent, RunEvent } from './events.ts';
import { addMoney } from './money.ts';
import { approvals } from './projections/approvals.ts';
import { callBatches } from './projections/call-batches.ts';
import { policyDecisions } from './projections/policy-decisions.ts';
import type { Columns, Place, RowChange } from './projections/projection.ts';
import { runs } from './projections/runs.ts';
import { turns } from './projections/turns.ts';

export const PROJECTIONS = [runs, turns, approvals, callBatches, policyDecisions] as const;

export type ProjectedTable = (typeof PROJECTIONS)[number]['table'];
type RowChanges = Record<ProjectedTable, RowChange[]>;
/** Rows by table, with the columns that the log defines. Money is a decimal string without trailing zeros, or null. */
type ProjectedRows = Record<ProjectedTable, Columns[]>;

export type RunOwner = Pick<Place, 'tenantId' | 'workspaceId' | 'runId'>;

/** Position of a commit's first event, and the time of its events. */
interface Position {
  firstSeq: number;
  at: (index: number) => string;
}

/** Row changes for consecutive events, merged: later `set`s win, `add`s are summed. */
export function project(owner: RunOwner, events: readonly NewEvent[], { firstSeq, at }: Position): RowChanges {
  const changes = emptyTables<RowChange>();
  events.forEach((event, index) => collect(changes, { ...owner, seq: firstSeq + index, at: at(index) }, event));
  return changes;
}

/** The rows for a whole log, from its first event on; each event's time is its `occurred_at`. */
export function projectLog(owner: RunOwner, events: readonly RunEvent[]): ProjectedRows {
  const rows = emptyTables<Columns>();
  for (const event of events) {
    const changes = emptyTables<RowChange>();
    collect(changes, { ...owner, seq: event.seq, at: event.occurred_at }, event);
    applyChanges(rows, changes);
  }
  return rows;
}

/** Applies changes to rows in memory, as `commit_run` does in the database. */
export function applyChanges(rows: ProjectedRows, changes: RowChanges): void {
  for (const { table, key } of PROJECTIONS) {
    for (const { key: value, insert, from, set, add } of changes[table]) {
      if (insert) rows[table].push({ ...insert });
      const row = rows[table].find((each) => each[key] === value);
      if (row && (from === undefined || row['status'] === from)) changeRow(row, { set, add });
    }
  }
}

function changeRow(row: Columns, { set, add = {} }: Record<'set' | 'add', Columns | undefined>): void {
  assignDefined(row, set);
  for (const [column, more] of Object.entries(add)) row[column] = sumOf(column, row[column], more);
}

function emptyTables<T>(): Record<ProjectedTable, T[]> {
  return { runs: [], turns: [], approvals: [], plans: [], policy_decisions: [] };
}

function collect(changes: RowChanges, place: Place, event: NewEvent): void {
  for (const { table, apply } of PROJECTIONS) {
    const change = apply(place, event);
    if (!change) continue;
    const known = changes[table].findLast(({ key }) => key === change.key);
    if (known && known.from === undefined && change.from === undefined && !change.insert) merge(known, change);
    else changes[table].push(change);
  }
}

/** Merges a later change of a row into an earlier one. Values set on a new row become part of its insert. */
function merge(known: RowChange, { set, add }: RowChange): void {
  if (set) {
    const target = known.insert ?? (known.set ??= {});
    assignDefined(target, set);
  }
  if (!add) return;
  if (known.insert) {
    changeRow(known.insert, { set: undefined, add });
    return;
  }
  known.add = { ...known.add, ...mapValues(add, (column, more) => plus(column, known.add?.[column], more)) };
}

function mapValues(columns: Columns, change: (column: string, value: unknown) => unknown): Columns {
  return Object.fromEntries(Object.entries(columns).map(([column, value]) => [column, change(column, value)]));
}

function plus(column: string, sum: unknown, more: unknown): unknown {
  return sum === undefined ? more : sumOf(column, sum, more);
}

function assignDefined(row: Columns, values: Columns = {}): void {
  for (const [column, value] of Object.entries(values)) if (value !== undefined) row[column] = value;
}

function sumOf(column: string, left: unknown, right: unknown): unknown {
  if (column !== 'cost_usd') return Number(left ?? 0) + Number(right);
  return addMoney(moneyOf(left), moneyOf(right));
}

function moneyOf(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
