/** Prepares something to try after a first start: an agent, and a run of it that waits for a message. */
import type { AgentDefinition } from '../../core/definition.ts';
import { findAgent, findByName, insertAgent } from '../../db/agents.ts';
import { listRuns } from '../../db/runs.ts';
import type { Context } from '../governance/context.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../tenants/bootstrap.ts';
import { hashAgent } from '../agents/create-agent.ts';
import { createRun } from '../runs/create-run.ts';

/** The smallest UUIDv7: lists go by id, so this agent is the oldest. An agent of 0.1.0 is named `assistant`. */
const AGENT_ID = '00000000-0000-7000-8000-000000000001';
const DEFINITION: AgentDefinition = {
  name: 'first-agent',
  version: '1.0.0',
  description: 'Calculates, and knows what time it is.',
  tools: ['calculator', 'current_time'],
};

const owner = { tenantId: DEFAULT_TENANT_ID, workspaceId: DEFAULT_WORKSPACE_ID };

/**
 * Makes the agent `first-agent` and an open run of it in the default tenant, or finds existing ones; for the one
 * process of embedded mode. Undefined if the agent was retired, or another one has its name.
 */
export async function ensureFirstRun(context: Context): Promise<{ agentId: string; runId: string } | undefined> {
  const found = await context.db.withTenant(owner.tenantId, async (tx) => {
    const agent = await findAgent(tx, AGENT_ID);
    if (!agent) {
      if (await findByName(tx, owner.workspaceId, DEFINITION.name)) return { offered: false };
      const contentHash = hashAgent(DEFINITION);
      await insertAgent(tx, { ...owner, agentId: AGENT_ID, version: '1.0.0', definition: DEFINITION, contentHash });
    }
    const { rows: open } = await listRuns(tx, { agentId: AGENT_ID, status: ['created', 'awaiting_human'], limit: 200 });
    return { offered: agent?.status !== 'deprecated', run: open.find((run) => run.keep_open && !run.open_turn_id) };
  });
  if (!found.offered) return undefined;
  return { agentId: AGENT_ID, runId: found.run?.id ?? (await openRun(context)) };
}

async function openRun(context: Context): Promise<string> {
  const { body } = await createRun(context, {
    ...owner,
    agentId: AGENT_ID,
    config: {},
    mayRaiseAutonomy: false,
    idempotency: { tenantId: owner.tenantId, route: 'start', body: {} },
  });
  return body.run_id;
}
