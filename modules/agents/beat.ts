/** Heartbeats of externally run agents: one that has sent some and then stays silent gets no more tasks. */
import { nextAgentStatus, type AgentStatus } from '../../core/agent-lifecycle.ts';
import type { Caller } from '../../core/caller.ts';
import { conflict, notFound } from '../../core/errors.ts';
import { lockBeating, noteHeartbeat } from '../../db/agent-lifecycle.ts';
import type { Tx } from '../../db/database.ts';
import { recordAudit } from '../audit/record-audit.ts';

interface Heartbeat {
  status: AgentStatus;
  /** Heartbeats since it lapsed, while it is offline. */
  heartbeats: number;
  at: Date;
}

/**
 * Records a heartbeat. It publishes no version and raises no policy epoch, since no run depends on it. An offline agent
 * is back after `RETURN_HEARTBEATS` in a row, each within the timeout of the one before. Throws 404, and 409 for a
 * deprecated agent.
 */
export async function beat(
  tx: Tx,
  caller: Caller,
  { id, timeoutMs }: { id: string; timeoutMs: number },
): Promise<Heartbeat> {
  const agent = await lockBeating(tx, { id, workspaceId: caller.workspaceId, timeoutMs });
  if (!agent) throw notFound('This agent');
  const heartbeats = agent.status === 'offline' ? (agent.is_recent ? agent.heartbeats : 0) + 1 : 0;
  const { tasks } = agent;
  const next = nextAgentStatus(agent.status, { type: 'heartbeat', tasks, heartbeats });
  if (!next) throw conflict('A deprecated agent sends no heartbeats.');
  // Busy is derived from tasks; the stored status is the one after them.
  const stored = next === 'busy' ? 'active' : next;
  const at = await noteHeartbeat(tx, { id, status: stored, heartbeats: next === 'offline' ? heartbeats : 0 });
  if (agent.status === 'offline' && next === 'active') {
    await recordAudit(tx, caller, { action: 'agent.returned', target: ['agent', id] });
  }
  return { status: next, heartbeats: next === 'offline' ? heartbeats : 0, at };
}
