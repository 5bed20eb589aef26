/** Requests calls under one policy epoch, and again if it has advanced by the commit. */
import { callsOf, type Intent } from '../../../core/intents.ts';
import { bindingOf } from '../../../core/tool-bindings.ts';
import { takeCalls } from '../../../db/rate-counts.ts';
import { mark, rewind } from '../../run-log/run-log.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { runPureCalls } from './run-calls.ts';
import { announceNext } from './announce.ts';
import { requestCalls, type AskedIn } from './request-calls.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import type { Drive } from './drive-state.ts';

const PATIENCE_MS = 30_000;

/** Requests the calls; if the policy epoch has advanced by the commit, they are rewound and gated again. */
export async function requestGated(drive: Drive, intents: readonly Intent[], answer: AskedIn): Promise<void> {
  const point = mark(drive.log);
  const { step } = drive;
  const granted = await takeLimitedCalls(drive, intents);
  const recorded = drive.replaySource && [...drive.replaySource.calls];
  const request = async (asked: AskedIn) => {
    requestCalls(drive, intents, { ...asked, granted });
    await runPureCalls(drive);
    goOn(drive);
  };
  drive.uncommitted.reauthorize = async () => {
    rewind(drive.log, point);
    drive.step = step;
    if (drive.replaySource && recorded) drive.replaySource.calls.splice(0, Infinity, ...recorded);
    // Ids shown for the rewound calls must not be reused for these.
    await request({ ...answer, shownIds: undefined });
  };
  await request(answer);
}

/** Saves a checkpoint if due, and announces the model call that follows. */
export function goOn(drive: Drive): void {
  saveCheckpointIfDue(drive);
  announceNext(drive);
}

/** For each tool with a rate limit in its binding: how many of the calls the minute still permits. They count, whatever becomes of them. */
async function takeLimitedCalls(drive: Drive, intents: readonly Intent[]) {
  const { context, tenantId, run, definition, tools, signal } = drive;
  const calls = callsOf(intents);
  const wanted = new Map<string, { name: string; wanted: number; most: number }>();
  for (const { use } of calls) {
    const tool = tools.get(use.name);
    const most = tool && bindingOf(definition, tool)?.rate_limit;
    if (!tool || most === undefined) continue;
    const name = nameOfCount(run.agent_id, tool.id);
    wanted.set(use.name, { name, wanted: (wanted.get(use.name)?.wanted ?? 0) + 1, most });
  }
  if (wanted.size === 0) return undefined;
  // The answer is paid for, and must not be lost to a short database outage.
  const taken = await retryWhileUnavailable(
    () => context.db.withTenant(tenantId, (tx) => takeCalls(tx, [...wanted.values()])),
    { forMs: PATIENCE_MS, signal },
  );
  return new Map([...wanted].map(([name, count]) => [name, taken.get(count.name) ?? 0]));
}

function nameOfCount(agentId: string, toolId: string): string {
  return `calls:${agentId}:${toolId}`;
}
