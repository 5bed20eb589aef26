/** Converts a settled attempt to its ledger row; for drivers and workers alike. */
import type { SettledCall } from '../../core/decision-events/tool-calls.ts';
import { attemptError, settleUnmade, UNKNOWN_OUTCOME, type MadeCall, type Settlement } from '../../core/ledger.ts';
import type { Trust } from '../../core/origin.ts';
import type { CallStatus } from '../../core/state.ts';
import { bytesOf, failureColumns, outputColumns, type OutputPart } from '../../core/tool-output.ts';
import type { CallChange } from '../../db/commit-run.ts';

/** The row's change, valid only while this attempt is the running one. */
export function settlementChange(settled: SettledCall): CallChange {
  const { settlement, attempt, latencyMs } = settled;
  const ended = { latency_ms: latencyMs, finished_at: 'now', lease_expires_at: null };
  const base = { id: settled.callId, from: ['running' as const], attempt };
  if (settlement.status === 'succeeded') {
    const stored = outputColumns(settlement.output ?? null, settlement.content);
    const set = { ...ended, status: 'succeeded' as const, ...stored, ...trustOf(settlement) };
    return { ...base, set: { ...set, remote: null, is_error: false, error: null } };
  }
  const { status, code, message } = settlement;
  const failed = settlement.status === 'failed' ? settlement : undefined;
  const stored = failed ? failureColumns(message, failed.output) : outputColumns(null, whyOf(settlement));
  const said = { ...(failed?.origin && { origin: failed.origin }), ...(failed && trustOf(failed)) };
  const remote = failed?.remote ?? null;
  const perhapsIn = settlement.perhapsIn ?? (failed ? undefined : attempt);
  const error = attemptError({ code, message, perhapsIn });
  return { ...base, set: { ...ended, status, ...stored, ...said, remote, is_error: true, error } };
}

/** The trust of an answer for which nobody vouches; empty if it is that of its tool. */
function trustOf({ untrusted }: { untrusted?: true | undefined }): { trust?: Trust } {
  return untrusted ? { trust: 'untrusted' } : {};
}

/** Text for the model about a call of unknown outcome, if there is more to say. */
function whyOf(settlement: Settlement): OutputPart[] | undefined {
  if (settlement.status !== 'unknown' || !settlement.saysWhy) return undefined;
  return [{ type: 'text', text: `${UNKNOWN_OUTCOME} Its next attempt was not made: ${settlement.message}` }];
}

/** A call that may end without another attempt. */
interface UnmadeCall extends MadeCall {
  id: string;
  status: CallStatus;
}

/** Gives up a call before its next attempt if an earlier one may have had an effect; otherwise undefined. */
export function givenUp(
  call: UnmadeCall,
  why: { code: string; message: string },
): { change: CallChange; settled: SettledCall } | undefined {
  const settlement = settleUnmade(call, why);
  if (!settlement) return undefined;
  const settled = { callId: call.id, attempt: call.attempt, settlement, latencyMs: 0 };
  return { change: { ...settlementChange(settled), from: [call.status] }, settled };
}

/** Bytes of outputs that a run's calls have stored, and their limit. */
export interface OutputRoom {
  storedBytes: number;
  limitBytes: number;
}

/** Replaces the settlement of a call whose output exceeds its run's limit. */
export function withinOutputLimit<S extends Settlement>(
  settlement: S,
  room: OutputRoom,
): S | Extract<Settlement, { status: 'failed' }> {
  if (settlement.status !== 'succeeded' && settlement.status !== 'failed') return settlement;
  const bytes = bytesOf(settlement.output ?? null);
  if (room.storedBytes + bytes <= room.limitBytes) return settlement;
  if (settlement.status === 'failed') return { ...settlement, output: undefined };
  const message =
    `The call was made, but its output of ${bytes} bytes was not kept: ` +
    `the outputs of a run may come to ${room.limitBytes} bytes in all.`;
  return { status: 'failed', code: 'run_output_limit', message, origin: 'drover' };
}

/** For calls of an erased run: keeps how the call ended, but not its content. */
export function withoutContent({ set, ...change }: CallChange): CallChange {
  const { error, remote } = set;
  const left: CallChange['set'] = {
    ...set,
    ...('output' in set && { output: null, model_output: null }),
    ...(error && { error: { code: error.code, message: '' } }),
    ...(remote && { remote: Object.fromEntries(Object.entries(remote).filter(([name]) => !SAID.includes(name))) }),
  };
  return { ...change, set: left };
}

/** A remote agent's question, and the answer. */
const SAID: readonly string[] = ['question', 'answer'];
