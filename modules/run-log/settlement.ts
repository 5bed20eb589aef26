/** A settled attempt as its ledger row and its event: the same for the driver and for a worker of `tool-calls`. */
import type { Settlement } from '../../core/ledger.ts';
import type { CallChange } from '../../db/commit-run.ts';

type Settled = Exclude<Settlement, { status: 'retry' }>;

interface SettledAttempt {
  callId: string;
  attempt: number;
  settlement: Settled;
  latencyMs: number;
}

/** The row: only where this attempt is still the one that runs. */
export function settlementChange(settled: SettledAttempt): CallChange {
  const { settlement, attempt, latencyMs } = settled;
  const ended = { latency_ms: latencyMs, finished_at: 'now', lease_expires_at: null };
  const base = { id: settled.callId, from: ['running' as const], attempt };
  if (settlement.status === 'succeeded') {
    const output = settlement.output ?? null;
    return {
      ...base,
      set: { ...ended, status: 'succeeded', output, is_error: false, error: null, output_bytes: bytesOf(output) },
    };
  }
  const { status, code, message } = settlement;
  const output = status === 'failed' ? message : null;
  return {
    ...base,
    set: { ...ended, status, output, is_error: true, error: { code, message }, output_bytes: bytesOf(output) },
  };
}

/** The event, without actor and place. */
export function settlementEvent(settled: SettledAttempt) {
  const { settlement, attempt, latencyMs } = settled;
  const tool_call_id = settled.callId;
  if (settlement.status === 'succeeded') {
    const output_bytes = bytesOf(settlement.output ?? null);
    return { type: 'tool.succeeded' as const, payload: { tool_call_id, latency_ms: latencyMs, output_bytes } };
  }
  const error = { code: settlement.code, message: settlement.message };
  if (settlement.status === 'unknown') {
    return { type: 'tool.unknown' as const, payload: { tool_call_id, error, attempts: attempt } };
  }
  return { type: 'tool.failed' as const, payload: { tool_call_id, error, attempts: attempt, latency_ms: latencyMs } };
}

/** Size of an output as it is kept: of text itself, of anything else as JSON. */
export function bytesOf(output: unknown): number {
  return Buffer.byteLength(typeof output === 'string' ? output : JSON.stringify(output));
}
