/** Checks one run after everything: its log against the plan and the ledger. */
import { readEvent, type RunEvent } from '../../core/events.ts';
import type { RetryingClient } from './client.ts';
import type { StartedRun } from './drive.ts';
import type { Probe } from './probe.ts';
import { answerOf } from './plan.ts';

export interface ExaminedRun {
  log: RunEvent[];
  /** Sentences; empty if all is well. */
  gaps: string[];
  differences: string[];
  /** Ended differently than without faults. */
  unlike: string[];
  /** Ids of its calls of unknown outcome, with the time of that. */
  unknowns: Map<string, number>;
}

/** Reads the log over HTTP and everything else from the database. */
export async function examineRun(client: RetryingClient, probe: Probe, run: StartedRun): Promise<ExaminedRun> {
  const rows = await readLog(client, run.id);
  const log = rows.map(readEvent);
  const unknown = log.filter(({ type }) => type === 'tool.unknown');
  return {
    log,
    gaps: findGaps(run.plan.label, log),
    differences: await compareLedger(probe, run, log),
    unlike: run.status === undefined ? [] : compareWithPlan(run, log),
    unknowns: new Map(unknown.map((event) => [callOf(event), Date.parse(event.occurred_at)])),
  };
}

/** Numbers missing from a run's log, or repeated. */
export function findGaps(label: string, log: readonly RunEvent[]): string[] {
  return log.flatMap(({ seq }, index) => (seq === index + 1 ? [] : [`${label}: event ${index + 1} has number ${seq}`]));
}

type LoggedRow = Parameters<typeof readEvent>[0];

/** All events of a run from the API. */
export async function readLog(client: RetryingClient, runId: string): Promise<LoggedRow[]> {
  return client.all(`/v1/runs/${runId}/events`, 'events');
}

function compareWithPlan({ plan, before, status, answer, error }: StartedRun, log: readonly RunEvent[]): string[] {
  const calls = plan.steps.reduce((sum, step) => sum + step.calls.length, 0);
  const requested = log.filter(({ type }) => type === 'tool.requested').length;
  const found = [
    status === 'completed' ? undefined : `ended as ${status}: ${JSON.stringify(error)}`,
    answer === answerOf(plan.label, before) ? undefined : `answered ${JSON.stringify(answer)}`,
    requested === calls ? undefined : `made ${requested} calls instead of ${calls}`,
  ];
  return found.flatMap((sentence) => (sentence === undefined ? [] : [`${plan.label} ${sentence}`]));
}

/**
 * The ledger is no projection, but has the log's calls. If a call of unknown outcome is settled after its run's end,
 * only the ledger has that: the log is closed by then (modules/tool-calls/late-result.ts).
 */
async function compareLedger(probe: Probe, { id, plan }: StartedRun, log: readonly RunEvent[]): Promise<string[]> {
  const stored = await probe.read((tx) =>
    tx.query<LedgerRow>(
      `select k.id, k.status, coalesce(k.finished_at > r.completed_at, false) as late
       from tool_calls k join runs r on r.id = k.run_id where k.run_id = $1`,
      [id],
    ),
  );
  const expected = ledgerOf(log);
  const found = stored.filter(({ id: callId, status, late }) => {
    const logged = expected.get(callId);
    return logged !== status && !(late && logged === 'unknown');
  });
  if (stored.length !== expected.size) {
    return [`${plan.label}: the ledger has ${stored.length} calls, the log ${expected.size}`];
  }
  return found.map((call) => `${plan.label}: call ${call.id} is ${call.status}, the log says ${expected.get(call.id)}`);
}

interface LedgerRow {
  id: string;
  status: string;
  /** Whether it was settled after its run had ended. */
  late: boolean;
}

/** Each call's state according to the log. */
function ledgerOf(log: readonly RunEvent[]): Map<string, string> {
  const calls = new Map<string, string>();
  for (const event of log) {
    const status = event.type === 'tool.resolved' ? event.payload.outcome : STATUS_AFTER[event.type];
    if (status !== undefined) calls.set(callOf(event), status);
  }
  return calls;
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
