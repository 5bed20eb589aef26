/** Ends waits whose time is up: success for a timer, for others a failure that the model sees. */
import { settledEvent } from '../../core/decision-events/tool-calls.ts';
import { askClientAgain, fireTimer } from '../../core/decision-events/waits.ts';
import type { NewEvent } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { WaitType } from '../../core/waits.ts';
import type { Tx } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange } from '../../db/commit-run.ts';
import { lockToolCall } from '../../db/tool-calls.ts';
import { claimDueWaits, listClientCalls, listDueWaits } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';
import { settlementChange } from '../run-log/settlement.ts';
import { appendToRun, type AppendedChange } from '../run-log/append-to-run.ts';
import { forEachIsolated, whileRoundLasts } from '../for-each-isolated.ts';
import { lookAtChildren } from '../run-log/join-parent.ts';
import { turnJobOf } from '../run-log/turn-job.ts';

const CLAIM_MS = 30_000;
/** Runs handled at a time. */
const AT_A_TIME = 10;

/** One round: claims due waits and turns them into events; returns how many runs continued. */
export function endDueWaits(context: Context): Promise<number> {
  return whileRoundLasts(async () => {
    const rows = await claimDueWaits(context.db, { limit: LIMITS.sweepRows, claimMs: CLAIM_MS });
    const ended = await forEachIsolated(
      context.log,
      { rows, atATime: AT_A_TIME },
      ({ tenant_id: tenantId, run_id: runId }) => endWaitsOf(context, { tenantId, runId }),
    );
    return { done: ended.filter(Boolean).length, hasMore: rows.length === LIMITS.sweepRows };
  });
}

/** False if somebody has answered meanwhile. */
async function endWaitsOf(context: Context, ref: { tenantId: string; runId: string }): Promise<boolean> {
  return (await appendToRun(context, ref, (run, tx) => changeFor(run, tx))) !== null;
}

async function changeFor(run: RunRow, tx: Tx): Promise<AppendedChange | null> {
  const due = await listDueWaits(tx, run.id);
  if (due.length === 0) return null;
  const ids = due.map(({ id }) => id);
  const events: NewEvent[] = [];
  const calls: CallChange[] = [];
  for (const { id, type, name, turn_id, until } of due) {
    const fired = { tool_call_id: id, type, ...(name !== null && { name }) };
    const { remote = null, attempt = 1 } = type === 'user' ? ((await lockToolCall(tx, id)) ?? {}) : {};
    // Work elsewhere that has asked a question is cancelled along with it.
    const settlement = { ...endOf(type, until), ...(remote && { remote }) };
    const settled = { callId: id, attempt, settlement, latencyMs: 0 };
    events.push(...fireTimer(turn_id, fired, settledEvent(settled)));
    calls.push({ ...settlementChange(settled), ...(remote && { from: ['pending'] }) });
  }
  const left = (await listClientCalls(tx, run.id)).filter(({ id }) => !ids.includes(id));
  const again = due.some(({ type }) => type === 'tool_results')
    ? askClientAgain(
        run.open_turn_id ?? undefined,
        left.map(({ id }) => id),
      )
    : [];
  // Looking at the parent cancels a child for which nobody waits any more.
  const orphans = due.some(({ type }) => type === 'child') ? lookAtChildren(run) : [];
  return { events: [...events, ...again], calls, close_waits: ids, outbox: [turnJobOf(run), ...orphans] };
}

const TOO_LATE: Record<Exclude<WaitType, 'timer'>, { code: string; message: string }> = {
  user: { code: 'no_answer', message: 'Nobody answered the question in time.' },
  webhook: { code: 'no_webhook', message: 'The webhook was not called in time.' },
  child: { code: 'no_result', message: 'What was delegated did not end in time.' },
  tool_results: { code: 'client_timeout', message: 'The client gave no result in time.' },
};

function endOf(type: WaitType, until: Date) {
  if (type === 'timer') return { status: 'succeeded' as const, output: { until: until.toISOString() } };
  return { status: 'failed' as const, origin: 'drover' as const, ...TOO_LATE[type] };
}
