/** A settled attempt as its ledger row: the same for a driver and for a worker. */
import { bytesOf, type SettledCall } from '../../core/decision-events/tool-calls.ts';
import type { CallChange } from '../../db/commit-run.ts';

/** The row: only where this attempt is still the one that runs. */
export function settlementChange(settled: SettledCall): CallChange {
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
