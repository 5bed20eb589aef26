/** Calls on their way into the ledger: asked for under the policies of one epoch, and anew where that has advanced by the commit. */
import type { Intent } from '../../../core/intents.ts';
import { bindingOf } from '../../../core/tool-bindings.ts';
import { countRecentCalls } from '../../../db/recent-calls.ts';
import { mark, rewind } from '../../run-log/run-log.ts';
import { retryWhileUnavailable } from '../../run-log/retry-while-unavailable.ts';
import { runPureCalls } from './act.ts';
import { announceNext } from './announce.ts';
import { requestCalls, type AskedIn } from './request-calls.ts';
import { saveCheckpointIfDue } from './save-checkpoint.ts';
import type { DriveSession } from './session.ts';

const PATIENCE_MS = 30_000;

/** Requests the calls; if the policy epoch has advanced by the commit, they are gated once more from here. */
export async function requestGated(session: DriveSession, intents: readonly Intent[], answer: AskedIn): Promise<void> {
  const point = mark(session.log);
  const { step } = session;
  const recent = await recentCalls(session);
  const recorded = session.replaySource && [...session.replaySource.calls];
  const request = async () => {
    requestCalls(session, intents, { ...answer, recent });
    await runPureCalls(session);
    goOn(session);
  };
  session.uncommitted.reauthorize = async () => {
    rewind(session.log, point);
    session.step = step;
    if (session.replaySource && recorded) session.replaySource.calls.splice(0, Infinity, ...recorded);
    await request();
  };
  await request();
}

/** Saves a checkpoint where one is due, and announces the model call that follows. */
export function goOn(session: DriveSession): void {
  saveCheckpointIfDue(session);
  announceNext(session);
}

/** Of tools that a binding limits; undefined for an agent without any. */
async function recentCalls({ context, tenantId, run, definition, tools, signal }: DriveSession) {
  if (!definition.tool_bindings?.some(({ rate_limit: limit }) => limit !== undefined)) return undefined;
  const limited = [...tools.values()].filter((tool) => bindingOf(definition, tool)?.rate_limit !== undefined);
  const names = limited.map(({ name }) => name);
  const of = { agentId: run.agent_id, runId: run.id, names };
  // The answer is paid for: a database that is away for a moment must not lose it.
  return retryWhileUnavailable(() => context.db.withTenant(tenantId, (tx) => countRecentCalls(tx, of)), {
    forMs: PATIENCE_MS,
    signal,
  });
}
