/** Makes the calls that belong to the driver itself: pure ones, and those of tools with `execution.inline`. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { CallState } from '../../../core/state.ts';
import { attempt } from '../../tool-calls/attempt.ts';
import { commitWithSteps, serialize, type InTurn } from './commit-attempts.ts';
import type { Drive } from './drive-state.ts';

/**
 * Makes the calls at the same time, each with a commit of its own before it is sent and after. A pure call that was left
 * over, waits for the next commit with its result, since making it again is harmless.
 */
export async function runCalls(drive: Drive, calls: readonly CallState[]): Promise<void> {
  const inTurn = serialize();
  const results = await Promise.allSettled(calls.map((call) => runCall(drive, call, inTurn)));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}

/**
 * Makes the pure calls of an answer before it is committed, so that their rows are inserted as finished. They have no effect and
 * do not leave the process; one that the process has to stop is left to whoever drives the run next.
 */
export async function runPureCalls(drive: Drive): Promise<void> {
  const isOpen = ({ id, mode, status }: CallState) =>
    mode === 'pure' && status === 'running' && drive.step.ownCalls.get(id)?.isBegun === true;
  const calls = drive.log.state.calls.filter(isOpen);
  // One that fails is made again in a step of its own, and fails there.
  await Promise.allSettled(calls.map((call) => runCall(drive, call, (work) => work())));
}

/** Makes one attempt after the other until the call has its result, or is left to another drive. */
async function runCall(drive: Drive, call: CallState, inTurn: InTurn): Promise<void> {
  const { context, tenantId, run, traceparent, signal } = drive;
  const committer = commitWithSteps(drive, call, inTurn);
  for (;;) {
    const { end } = await attempt(context, { tenantId, runId: run.id, traceparent }, committer);
    if (end.kind === 'done') return;
    await sleep(end.waitMs, undefined, { signal });
  }
}
