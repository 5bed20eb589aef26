/** The rows that a whole log gives, put together in memory by the same `project` that a commit uses. */
import type { RunEvent } from './events.ts';
import { project, type ProjectionContext, type RowChanges } from './project.ts';

type Columns = Record<string, unknown>;

/** Rows of each projection, by column. Money is a decimal string without trailing zeros, or null. */
export interface ProjectedRows {
  run: Columns;
  turns: Columns[];
  approvals: Columns[];
  policy_decisions: Columns[];
  plans: Columns[];
}

export type RunOwner = Pick<ProjectionContext, 'tenantId' | 'workspaceId' | 'runId'>;

/** Projects a log from its first event on; each event's time is its `occurred_at`. */
export function projectLog(owner: RunOwner, events: readonly RunEvent[]): ProjectedRows {
  const rows: ProjectedRows = { run: {}, turns: [], approvals: [], policy_decisions: [], plans: [] };
  for (const event of events) {
    const context = { ...owner, lineage: lineageOf(rows), firstSeq: event.seq, at: () => event.occurred_at };
    applyChanges(rows, project(context, [event]));
  }
  return rows;
}

/** The lineage that a run's messages stand in; empty before its first event. */
export function lineageOf({ run }: ProjectedRows): string {
  return typeof run['lineage'] === 'string' ? run['lineage'] : '';
}

/** Applies changes as `commit_run` does: `set` replaces, `add` adds, what is undefined stays. */
export function applyChanges(rows: ProjectedRows, changes: RowChanges): void {
  if (changes.create) rows.run = { ...changes.create };
  change(rows.run, changes.runs);
  for (const { id, insert, ...rest } of changes.turns) {
    if (insert) rows.turns.push({ ...insert });
    const turn = rows.turns.find((row) => row['id'] === id);
    if (turn) change(turn, rest);
  }
  rows.policy_decisions.push(...changes.policy_decisions);
  for (const plan of changes.plans) {
    const known = rows.plans.find((row) => row['id'] === plan['id']);
    if (known) change(known, { set: plan });
    else rows.plans.push({ ...plan });
  }
  for (const { expires_in_seconds: _, ...approval } of changes.approvals) {
    const known = rows.approvals.find((row) => row['id'] === approval['id']);
    if (!known) rows.approvals.push(approval);
    else if (known['status'] === 'pending') change(known, { set: approval });
  }
}

function change(row: Columns, { set = {}, add = {} }: { set?: Columns; add?: Columns }): void {
  for (const [column, value] of Object.entries(set)) if (value !== undefined) row[column] = value;
  for (const [column, value] of Object.entries(add)) {
    const before = row[column];
    row[column] = column === 'cost_usd' ? addMoney(before, value) : Number(before ?? 0) + Number(value);
  }
}

/** Decimal strings added exactly. What is not known plus anything is not known, as in SQL. */
function addMoney(left: unknown, right: unknown): string | null {
  if (typeof left !== 'string' || typeof right !== 'string') return null;
  const places = Math.max(placesOf(left), placesOf(right));
  const digits = (scaled(left, places) + scaled(right, places)).toString().padStart(places + 1, '0');
  const whole = digits.slice(0, digits.length - places);
  const rest = digits.slice(digits.length - places).replace(/0+$/, '');
  return rest === '' ? whole : `${whole}.${rest}`;
}

function placesOf(money: string): number {
  return money.split('.')[1]?.length ?? 0;
}

function scaled(money: string, places: number): bigint {
  const [whole = '0', rest = ''] = money.split('.');
  return BigInt(whole + rest.padEnd(places, '0'));
}
