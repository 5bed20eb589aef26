/** Reports committed events to operators: counters for `/metrics`, and log lines for failures. */
import type { EventType } from '../../core/events.ts';
import { ageMs } from '../../lib/new-id.ts';
import type { ProcessContext } from '../process-context.ts';
import type { Work } from '../metrics.ts';

/** The run of the events. */
export interface ReportedRun {
  tenantId: string;
  runId: string;
  agentId: string | undefined;
  /** The name of a call's tool, if known. */
  toolOf?: (callId: string) => string | undefined;
}

interface ReportedEvent {
  type: EventType;
  turn_id?: string | undefined;
  step?: number | undefined;
  payload: object;
}

/** Counts what has ended, with durations, and logs failures. Only for committed events. */
export function reportEvents(
  context: Pick<ProcessContext, 'metrics' | 'log'>,
  run: ReportedRun,
  events: readonly ReportedEvent[],
): void {
  const recorded = new Set(
    events.flatMap(({ type, payload }) => (type === 'tool.requested' ? answeredBy(payload) : [])),
  );
  for (const event of events) if (!isRecorded(event.payload, recorded)) reportEvent(context, run, event);
}

/** The call, if a record answers it: its outcome is committed with its request. */
function answeredBy({ recorded_from: from, tool_call_id: call }: Facts): string[] {
  return from === undefined || call === undefined ? [] : [call];
}

/** Whether nobody made the call whose end the event is: a replay's record has it, and the run that made it has counted it. */
function isRecorded({ recorded, tool_call_id: call }: Facts, answered: ReadonlySet<string>): boolean {
  return recorded === true || (call !== undefined && answered.has(call));
}

/** Fields in payloads of reported events. */
interface Facts {
  error?: { code: string; message: string };
  latency_ms?: number;
  tool_call_id?: string;
  model?: string;
  recorded?: boolean;
  recorded_from?: string;
}

function reportEvent(
  { metrics, log }: Pick<ProcessContext, 'metrics' | 'log'>,
  run: ReportedRun,
  event: ReportedEvent,
): void {
  const kind = KINDS[event.type];
  if (!kind) return;
  const { work, outcome } = kind;
  const { error, latency_ms, tool_call_id: call, model } = event.payload as Facts;
  const code = error?.code ?? '';
  metrics.outcomes[work].inc({ outcome, code: labelOf(code) });
  const tookMs = work === 'run' ? ageMs(run.runId) : work === 'turn' ? ageMs(event.turn_id) : latency_ms;
  if (tookMs !== undefined) metrics.outcomeSeconds[work].observe({ outcome }, tookMs / 1000);
  if (!error || outcome === 'retried' || outcome === 'denied') return;
  const { runId, tenantId: tenant, agentId: agent } = run;
  const about = { run: runId, turn: event.turn_id, step: event.step, tenant, agent };
  const tool = call === undefined ? undefined : run.toolOf?.(call);
  log.warn({ ...about, call, tool, model, outcome, code, cause: causeOf(work, error) }, `${NAMES[work]} ${outcome}`);
}

/** Codes of JSON-RPC, MCP and A2A. Servers may answer any number, and each label creates a permanent series. */
const RPC_CODES = /^(mcp|a2a)-(32700|3260[0-3]|3200\d|32042)$/;

function labelOf(code: string): string {
  return /^(mcp|a2a)[-+\d]/.test(code) && !RPC_CODES.test(code) ? 'other' : code;
}

const NAMES: Record<Work, string> = { run: 'run', turn: 'turn', tool_call: 'tool call', model_call: 'model call' };

const KINDS: Partial<Record<EventType, { work: Work; outcome: string }>> = {
  'run.completed': { work: 'run', outcome: 'completed' },
  'run.failed': { work: 'run', outcome: 'failed' },
  'run.cancelled': { work: 'run', outcome: 'cancelled' },
  'turn.completed': { work: 'turn', outcome: 'completed' },
  'turn.failed': { work: 'turn', outcome: 'failed' },
  'turn.interrupted': { work: 'turn', outcome: 'cancelled' },
  'tool.succeeded': { work: 'tool_call', outcome: 'succeeded' },
  'tool.failed': { work: 'tool_call', outcome: 'failed' },
  'tool.denied': { work: 'tool_call', outcome: 'denied' },
  'tool.unknown': { work: 'tool_call', outcome: 'unknown' },
  'model.responded': { work: 'model_call', outcome: 'succeeded' },
  'model.retried': { work: 'model_call', outcome: 'retried' },
  'model.failed': { work: 'model_call', outcome: 'failed' },
};

/** Failures of calls with Drover's own message; other messages are content, which is not logged. */
const OWN_WORDS =
  /^(egress-.*|server-.*|secret-.*|secrets|timeout|aborted|interrupted|stopped|denied|internal|not_sent|not-allowed|unknown-.*|output-too-large|bad-output|bad-answer|no_answer|no_webhook|client_timeout)$/;
const CAUSE_CHARS = 500;

function causeOf(work: Work, { code, message }: { code: string; message: string }): string | undefined {
  return work === 'tool_call' && !OWN_WORDS.test(code) ? undefined : message.slice(0, CAUSE_CHARS);
}
