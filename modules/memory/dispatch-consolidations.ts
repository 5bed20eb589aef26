/** Sends jobs for agents whose short-term memory may be due for consolidation. */
import { LIMITS } from '../../core/limits.ts';
import { findAgent } from '../../db/agents.ts';
import { listConsolidationDue } from '../../db/memory-work.ts';
import { CONSOLIDATION } from '../../jobs/consolidation.ts';
import { RECURRING_JOB_OPTIONS } from '../../jobs/options.ts';
import { newId } from '../../lib/new-id.ts';
import type { Consolidated } from './consolidate-memory.ts';
import { consolidateShortTerm } from './consolidate-short-term.ts';
import type { ExtractionContext } from './extract/propose.ts';
import type { MemoryContext } from './memory-context.ts';

const AT_ONCE = 200;

/**
 * Sends jobs for agents with entries that are an hour old, within limits per tenant and for all; the job finds out
 * whether the agent wants it. Agents beyond a limit get their turn later. Returns how many.
 */
export async function dispatchConsolidations(
  { db, queues }: Pick<MemoryContext, 'db' | 'queues'>,
  most: { ofTenant: number; ofAll: number } = {
    ofTenant: LIMITS.consolidatedAgentsOfTenant,
    ofAll: LIMITS.consolidatedAgents,
  },
): Promise<number> {
  const { ofTenant, ofAll: limit } = most;
  const due = await listConsolidationDue(db, { olderThanHours: 1, ofTenant, limit, tick: newId() });
  for (let at = 0; at < due.length; at += AT_ONCE) {
    const jobs = due.slice(at, at + AT_ONCE).map(({ tenant_id: tenantId, agent_id: agentId }) => {
      const data = { tenantId, agentId, work: 'consolidate' as const };
      return { name: CONSOLIDATION.name, data, opts: { ...RECURRING_JOB_OPTIONS, jobId: CONSOLIDATION.id(data) } };
    });
    await queues.queue(CONSOLIDATION.name).addBulk(jobs);
  }
  return due.length;
}

/** Consolidates an agent's short-term memory if it has opted in (`memory_config.consolidation`). */
export async function consolidateDue(
  context: ExtractionContext,
  { tenantId, agentId }: { tenantId: string; agentId: string },
  stop: AbortSignal,
): Promise<Consolidated | { skipped: number }> {
  const agent = await context.db.withTenant(tenantId, (tx) => findAgent(tx, agentId));
  if (!agent?.definition.memory_config?.consolidation) return { skipped: 1 };
  const { definition, workspace_id: workspaceId } = agent;
  const by = { strategy: 'age' as const, maxEntries: LIMITS.consolidatedEntries, at: new Date(), keyId: null };
  const asked = { tenantId, agentId, workspaceId, definition, ...by };
  return consolidateShortTerm(context, asked, stop);
}
