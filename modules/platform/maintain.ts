/** The acts of the queue `maintenance`. Each is idempotent, bounded, and safe to run in several workers at once. */
import { LIMITS } from '../../core/limits.ts';
import { listAnsweredQuestions, listDueApprovals, listIdleRuns, renewPlans } from '../../db/maintenance.ts';
import { makePartitions } from '../../db/partitions.ts';
import { listUnsplitCalls, splitOutput } from '../../db/outputs.ts';
import type { Context } from '../governance/context.ts';
import { CONTRACTS } from '../../jobs/contracts.ts';
import type { MaintenanceAct } from '../../jobs/maintenance.ts';
import { renewPriorities } from '../../jobs/renew-priorities.ts';
import { expireConflict } from '../approvals/decide-conflict.ts';
import { expireApproval } from '../approvals/decide-approval.ts';
import { forEachIsolated, whileRoundLasts } from '../for-each-isolated.ts';
import { expireRun } from '../runs/end-run.ts';
import { finishErasures } from '../runs/finish-erasures.ts';
import { wakeParkedRuns } from '../runs/wake-parked.ts';
import { endDueWaits } from '../waits/end-waits.ts';
import { sweepFiles } from '../files/sweep-files.ts';
import { embedSkills } from '../agents/similar-skills.ts';
import { carryHandoffs } from '../workflows/carry-handoffs.ts';
import { endDueTasks } from '../workflows/end-due-tasks.ts';
import { lapseAgents } from '../workflows/lapse-agents.ts';
import { forgetOldRows } from './forget-old.ts';
import { titleThreads } from '../conversations/title-threads.ts';
import { indexErrors } from '../dashboard/index-errors.ts';
import { rollUpRuns } from '../dashboard/roll-up-usage.ts';
import { dropPassedParents } from '../run-log/drop-passed-parents.ts';
import { warnOfUnserved } from './unserved-queues.ts';
import { warnOfEviction } from './warn-of-eviction.ts';
import { reconcile } from '../run-log/reconcile.ts';
import { dispatchWebhooks } from '../webhooks/dispatch-webhooks.ts';
import { dropExpired } from '../memory/drop-expired.ts';
import { repeatForgetting } from '../memory/forget-again.ts';
import { indexMemories } from '../memory/index-memories.ts';
import { dispatchConsolidations } from '../memory/dispatch-consolidations.ts';
import { sealAudit } from '../audit/seal-audit.ts';
import { settleBudgets } from '../budgets/settle-budgets.ts';

/** Twelve months: so long may a dump, or a halt of maintenance, last. */
const PARTITION_DAYS_AHEAD = 366;
const SWEEP_AFTER_MS = 5000;
/** Due approvals ended at a time. */
const APPROVALS_AT_A_TIME = 10;

/** Carries out one act; returns what it did, for the log. */
export async function maintain(context: Context, act: MaintenanceAct): Promise<Record<string, number>> {
  switch (act) {
    case 'sweep-outbox':
      return { sent: await context.outbox.sweep(SWEEP_AFTER_MS) };
    case 'reconcile':
      return reconcileQuiet(context);
    case 'expire-approvals':
      return { expired: await expireApprovals(context) };
    case 'expire-answered':
      return { expired: await expireAnswered(context) };
    case 'send-webhooks':
      return { sent: await dispatchWebhooks(context) };
    case 'title-threads':
      return { titled: await titleThreads(context) };
    case 'seal-audit':
      return { sealed: await sealAudit(context) };
    case 'end-waits':
      return { ended: await endDueWaits(context) };
    case 'end-tasks':
      return { ended: await endDueTasks(context) };
    case 'carry-handoffs':
      return { carried: await carryHandoffs(context) };
    case 'embed-skills':
      return { tenants: await embedSkills(context) };
    case 'lapse-agents':
      return lapseAgents(context);
    case 'renew-priorities':
      return { moved: await renewAllPriorities(context) };
    case 'look-at-queues':
      await warnOfEviction(context);
      return { unserved: await warnOfUnserved(context) };
    case 'wake-parked':
      return { woken: await wakeParkedRuns(context) };
    case 'expire-idle':
      return { expired: await expireIdle(context) };
    case 'forget-old':
      return forgetOldRows(context);
    case 'roll-up-usage':
      return { added: await rollUpRuns(context) };
    case 'settle-budgets':
      return settleBudgets(context);
    case 'consolidate-memory':
      return { expired: await dropExpired(context), sent: await dispatchConsolidations(context) };
    case 'forget-again':
      return { looked: await repeatForgetting(context) };
    case 'split-outputs':
      return { split: await splitOutputs(context) };
    case 'index-errors':
      return { named: await indexErrors(context) };
    case 'index-memories':
      return { filled: await indexMemories(context) };
    case 'sweep-files':
      return { swept: await sweepFiles(context) };
    case 'finish-erasures':
      return { finished: await finishErasures(context) };
    case 'make-partitions':
      return keepTables(context);
  }
}

async function reconcileQuiet(context: Context): Promise<Record<string, number>> {
  const quietMs = Math.min(SWEEP_AFTER_MS, context.config.leaseMs);
  const sent = await reconcile(context, quietMs);
  return { ...sent, dropped: await dropPassedParents(context, quietMs) };
}

async function renewAllPriorities({ queues }: Context): Promise<number> {
  const moved = await Promise.all(CONTRACTS.map(({ name }) => renewPriorities(queues.queue(name), Date.now())));
  return moved.reduce((sum, each) => sum + each, 0);
}

/** Makes partitions for the time ahead, and renews query plans, as tables have grown. */
async function keepTables({ db, log }: Context): Promise<Record<string, number>> {
  await renewPlans(db);
  const partitions = await makePartitions(db, PARTITION_DAYS_AHEAD);
  if (partitions.astray > 0) log.error(partitions, 'rows lie in a default partition');
  if (partitions.delayed > 0) log.warn(partitions, 'partitions wait for a long transaction, a dump perhaps');
  return { ...partitions };
}

/** Splits large outputs that an earlier release stored in one piece, a limited number per act. */
async function splitOutputs({ db, log }: Context): Promise<number> {
  const rows = await listUnsplitCalls(db, LIMITS.sweepRows);
  // One at a time: each is loaded whole.
  const done = await forEachIsolated(log, { rows }, (call) => splitOutput(db, call));
  return done.length;
}

/** Until as many are left as could not be ended. */
function expireApprovals(context: Context): Promise<number> {
  return whileRoundLasts(async () => {
    const rows = await listDueApprovals(context.db, LIMITS.sweepRows);
    const ended = await forEachIsolated(context.log, { rows, atATime: APPROVALS_AT_A_TIME }, (row) =>
      row.run_id === null
        ? expireConflict(context, { tenantId: row.tenant_id, id: row.id })
        : expireApproval(context, { tenantId: row.tenant_id, id: row.id }),
    );
    const done = ended.filter(Boolean).length;
    return { done, hasMore: done === LIMITS.sweepRows };
  });
}

/** Processes of 0.1.0 leave such questions open: they ask even if the call ends meanwhile. */
async function expireAnswered(context: Context): Promise<number> {
  const rows = await listAnsweredQuestions(context.db, LIMITS.sweepRows);
  const expired = await forEachIsolated(context.log, { rows }, ({ tenant_id: tenantId, id }) =>
    expireApproval(context, { tenantId, id }),
  );
  return expired.filter(Boolean).length;
}

async function expireIdle(context: Context): Promise<number> {
  const rows = await listIdleRuns(context.db, { idleSeconds: LIMITS.idleSeconds, limit: LIMITS.sweepRows });
  const done = await forEachIsolated(context.log, { rows }, ({ tenant_id: tenantId, id: runId, last_seq: seq }) =>
    expireRun(context, { tenantId, runId, seq }),
  );
  return done.filter(Boolean).length;
}
