/** Makes the driver's own calls: pure ones, and those of tools with `execution.inline`. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallState } from '../../../core/state.ts';
import { kindOf } from '../../../tools/transports.ts';
import { attempt } from '../../tool-calls/attempt.ts';
import { commitWithSteps, endUnmade, serialize, type InTurn } from './commit-attempts.ts';
import { traceOf, type Drive } from './drive-state.ts';

/**
 * Makes the calls concurrently; each commits before it is sent and when it has ended. The result of a pure call left over from
 * an earlier drive waits for the next commit, since repeating the call is harmless. Answers when the run continues if calls are
 * left whose transport this process does not know: a driver that waited for them would keep them from those that do.
 */
export async function runCalls(drive: Drive, calls: readonly CallState[]): Promise<{ afterMs: number } | undefined> {
  const inTurn = serialize();
  const results = await Promise.allSettled(calls.map((call) => runCall(drive, call, inTurn)));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
  const left = results.flatMap((result) => (result.status === 'fulfilled' && result.value ? [result.value] : []));
  return left.length === 0 ? undefined : { afterMs: Math.max(...left.map(({ waitMs }) => waitMs)) };
}

/**
 * Makes an answer's pure calls before it is committed, so that their rows are inserted as finished. They have no effects and
 * do not leave the process; a call interrupted by the process's stop is left to the next driver.
 */
export async function runPureCalls(drive: Drive): Promise<void> {
  const isOpen = ({ id, mode, status }: CallState) =>
    mode === 'pure' && status === 'running' && drive.step.ownCalls.get(id)?.isBegun === true;
  const calls = drive.log.state.calls.filter(isOpen);
  // A failed one is made again in its own step, and fails there.
  await Promise.allSettled(calls.map((call) => runCall(drive, call, (work) => work())));
}

/** Ends calls of which drivers have died again and again. Unless others of their step go on elsewhere, the turn fails next. */
export async function giveUpCalls(drive: Drive, calls: readonly CallState[]): Promise<void> {
  for (const call of calls) await endUnmade(drive, call);
}

/** Makes attempts until the call has its result, or is left to another drive; answers when that may make the next. */
async function runCall(drive: Drive, call: CallState, inTurn: InTurn): Promise<{ waitMs: number } | undefined> {
  const { context, tenantId, run, signal } = drive;
  const traceparent = traceOf(drive);
  const tool = drive.tools.get(call.name);
  const isKnown = !tool || kindOf(tool.transport) !== undefined;
  const committer = commitWithSteps(drive, call, inTurn);
  for (;;) {
    const { end } = await attempt(context, { tenantId, runId: run.id, traceparent }, committer);
    if (end.kind === 'done') return undefined;
    if (!isKnown) return end;
    await sleep(end.waitMs, undefined, { signal });
  }
}
