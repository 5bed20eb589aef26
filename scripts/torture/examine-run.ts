/** What must hold of one run after everything: its log against the plan, the rows, the ledger and the world outside. */
import { isDeepStrictEqual } from 'node:util';
import { readEvent, type RunEvent } from '../../core/events.ts';
import { OPERATIONAL } from '../../core/project.ts';
import { projectLog } from '../../core/projected-rows.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../../services/bootstrap.ts';
import type { PatientClient } from './client.ts';
import type { StartedRun } from './drive.ts';
import type { Inside } from './inside.ts';
import { answerOf } from './plan.ts';

type Row = Record<string, unknown>;

export interface ExaminedRun {
  log: RunEvent[];
  /** Sentences; empty where all is well. */
  gaps: string[];
  differences: string[];
  /** Ended, but not as it would have without faults. */
  unlike: string[];
  /** Ids of its calls of unknown outcome, and when each was settled as such. */
  unknowns: Map<string, number>;
}

/** Reads the log over HTTP and everything else from the database. */
export async function examineRun(client: PatientClient, inside: Inside, run: StartedRun): Promise<ExaminedRun> {
  const rows = await readLog(client, run.id);
  const log = rows.map(readEvent);
  const gaps = log.flatMap(({ seq }, index) =>
    seq === index + 1 ? [] : [`${run.plan.label}: event ${index + 1} has number ${seq}`],
  );
  const unknown = log.filter(({ type }) => type === 'tool.unknown');
  return {
    log,
    gaps,
    differences: await compareRows(inside, run, log),
    unlike: run.status === undefined ? [] : compareWithPlan(run, log),
    unknowns: new Map(unknown.map((event) => [callOf(event), Date.parse(event.occurred_at)])),
  };
}

type LoggedRow = Parameters<typeof readEvent>[0];

async function readLog(client: PatientClient, run: string): Promise<LoggedRow[]> {
  const events: LoggedRow[] = [];
  let cursor = '';
  for (;;) {
    const path = `/v1/runs/${run}/events?limit=200${cursor}`;
    const page = await client.get<{ events: LoggedRow[]; next_cursor?: number | string }>(path);
    events.push(...page.events);
    if (page.next_cursor === undefined) return events;
    cursor = `&cursor=${page.next_cursor}`;
  }
}

function compareWithPlan({ plan, status, answer, error }: StartedRun, log: readonly RunEvent[]): string[] {
  const calls = plan.steps.reduce((sum, step) => sum + step.calls.length, 0);
  const requested = log.filter(({ type }) => type === 'tool.requested').length;
  const found = [
    status === 'completed' ? undefined : `ended as ${status}: ${JSON.stringify(error)}`,
    answer === answerOf(plan.label) ? undefined : `answered ${JSON.stringify(answer)}`,
    requested === calls ? undefined : `made ${requested} calls instead of ${calls}`,
  ];
  return found.flatMap((sentence) => (sentence === undefined ? [] : [`${plan.label} ${sentence}`]));
}

async function compareRows(inside: Inside, { id, plan }: StartedRun, log: readonly RunEvent[]): Promise<string[]> {
  const stored = await inside.read(async (tx) => ({
    run: (await tx.query<Row>('select * from runs where id = $1', [id]))[0] ?? {},
    turns: await tx.query<Row>('select * from turns where run_id = $1 order by number', [id]),
    llm_calls: await tx.query<Row>('select * from llm_calls where run_id = $1 order by seq', [id]),
    calls: await tx.query<Row>('select id, status from tool_calls where run_id = $1 order by step, place', [id]),
  }));
  const owner = { tenantId: DEFAULT_TENANT_ID, workspaceId: DEFAULT_WORKSPACE_ID, runId: id };
  const projected = projectLog(owner, log);
  const found = [
    ...differing('runs', [projected.run], [stored.run]),
    ...differing('turns', projected.turns, stored.turns),
    ...differing('llm_calls', projected.llm_calls, stored.llm_calls),
    ...differing('tool_calls', ledgerOf(log), stored.calls),
    ...(stored.run['last_seq'] === log.length ? [] : [`runs.last_seq is ${stored.run['last_seq']} of ${log.length}`]),
  ];
  return found.map((sentence) => `${plan.label}: ${sentence}`);
}

const UNPROJECTED: readonly string[] = OPERATIONAL;

/** Columns that the log gives and the table does not have so. */
function differing(table: string, expected: readonly Row[], stored: readonly Row[]): string[] {
  if (expected.length !== stored.length) return [`${table} has ${stored.length} rows instead of ${expected.length}`];
  return expected.flatMap((row, index) =>
    Object.entries(row).flatMap(([column, value]) => {
      if (UNPROJECTED.includes(column)) return [];
      const [left, right] = [plain(value), plain(stored[index]?.[column])];
      if (isDeepStrictEqual(left, right)) return [];
      return [`${table}.${column} is ${JSON.stringify(right)}, the log says ${JSON.stringify(left)}`];
    }),
  );
}

/** Times in ms, money without trailing zeros, nothing as null: tables and logs write them differently. */
function plain(value: unknown): unknown {
  const json = JSON.parse(JSON.stringify(value ?? null)) as unknown;
  if (typeof json !== 'string') return json;
  if (/^\d{4}-\d\d-\d\dT/.test(json)) return Date.parse(json);
  return /^\d+\.\d+$/.test(json) ? json.replace(/\.?0+$/, '') : json;
}

/** The state of each call, as the log tells it. */
function ledgerOf(log: readonly RunEvent[]): Row[] {
  const calls = new Map<string, Row>();
  for (const event of log) {
    const status = STATUS_AFTER[event.type];
    if (status !== undefined) calls.set(callOf(event), { id: callOf(event), status });
  }
  return [...calls.values()];
}

const STATUS_AFTER: Partial<Record<RunEvent['type'], string>> = {
  'tool.requested': 'pending',
  'tool.started': 'running',
  'tool.succeeded': 'succeeded',
  'tool.failed': 'failed',
  'tool.denied': 'denied',
  'tool.unknown': 'unknown',
};

function callOf(event: RunEvent): string {
  return String((event.payload as { tool_call_id?: string }).tool_call_id);
}
