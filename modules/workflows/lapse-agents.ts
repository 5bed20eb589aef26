/** Marks silent agents as offline, has their tasks given to others, and deprecates those that do not come back. */
import { LIMITS } from '../../core/limits.ts';
import {
  deprecateLost,
  listLapsedAgents,
  listLostAgents,
  listStrandedWorkflows,
  markOffline,
} from '../../db/agent-lifecycle.ts';
import { advancePolicyEpoch } from '../../db/governance.ts';
import { recordAudit } from '../audit/record-audit.ts';
import { forEachIsolated } from '../for-each-isolated.ts';
import type { Context } from '../governance/context.ts';
import { lookInPassing } from './advance-parent.ts';

/** Each part is a transaction of its own; a process that dies before one leaves it to be found again. Returns the counts. */
export async function lapseAgents(context: Context): Promise<{ lapsed: number; moved: number; deprecated: number }> {
  const { db, log, config } = context;
  const { heartbeatTimeoutMs: timeoutMs } = config;
  const limit = LIMITS.sweepRows;
  const lapsed = await forEachIsolated(log, { rows: await listLapsedAgents(db, { timeoutMs, limit }) }, (agent) =>
    db.withTenant(agent.tenant_id, async (tx) => {
      if (!(await markOffline(tx, agent.id, timeoutMs))) return false;
      await recordAudit(tx, { tenantId: agent.tenant_id }, { action: 'agent.lapsed', target: ['agent', agent.id] });
      return true;
    }),
  );
  const stranded = await listStrandedWorkflows(db, limit);
  const moved = await forEachIsolated(log, { rows: stranded }, ({ tenant_id: tenantId, workflow_id: runId }) =>
    lookInPassing(context, { tenantId, runId }),
  );
  return { lapsed: lapsed.filter(Boolean).length, moved: moved.length, deprecated: await deprecateLostAgents(context) };
}

async function deprecateLostAgents({ db, log }: Context): Promise<number> {
  const { agentOfflineSeconds: offlineSeconds, sweepRows: limit } = LIMITS;
  const rows = await listLostAgents(db, { offlineSeconds, limit });
  const done = await forEachIsolated(log, { rows }, ({ tenant_id: tenantId, id }) =>
    db.withTenant(tenantId, async (tx) => {
      // Processes cache by policy epoch which agents take no new runs.
      await advancePolicyEpoch(tx);
      if (!(await deprecateLost(tx, id, offlineSeconds))) return false;
      await recordAudit(
        tx,
        { tenantId },
        { action: 'agent.deprecated', target: ['agent', id], details: { offlineSeconds } },
      );
      return true;
    }),
  );
  return done.filter(Boolean).length;
}
