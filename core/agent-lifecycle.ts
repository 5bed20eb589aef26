/** Agent states and their transitions (002, "Agent Lifecycle State Machine"). Pure. */

export const AGENT_STATUSES = ['registering', 'active', 'idle', 'busy', 'offline', 'deprecated', 'failed'] as const;
export type AgentStatus = (typeof AGENT_STATUSES)[number];

/** Consecutive heartbeats after which a lapsed agent is active again and gets tasks. */
const RETURN_HEARTBEATS = 3;

export type AgentTrigger =
  | { type: 'validated' }
  | { type: 'refused' }
  /** `heartbeats`: how many in a row since it lapsed, this one included. */
  | { type: 'heartbeat'; tasks: number; heartbeats: number }
  | { type: 'task_assigned' }
  | { type: 'tasks_ended' }
  /** No heartbeat for too long. */
  | { type: 'lapsed' }
  | { type: 'deprecated' };

/** The next state; undefined if the trigger has no effect in this one. */
export function nextAgentStatus(status: AgentStatus, trigger: AgentTrigger): AgentStatus | undefined {
  if (trigger.type === 'deprecated') return status === 'failed' || status === 'deprecated' ? undefined : 'deprecated';
  switch (status) {
    case 'registering':
      return trigger.type === 'validated' ? 'active' : trigger.type === 'refused' ? 'failed' : undefined;
    case 'active':
    case 'idle':
      if (trigger.type === 'heartbeat') return trigger.tasks === 0 ? 'idle' : 'busy';
      if (trigger.type === 'lapsed') return 'offline';
      return trigger.type === 'task_assigned' ? 'busy' : undefined;
    case 'busy':
      if (trigger.type === 'heartbeat' || trigger.type === 'task_assigned') return 'busy';
      return trigger.type === 'lapsed' ? 'offline' : trigger.type === 'tasks_ended' ? 'active' : undefined;
    case 'offline':
      if (trigger.type !== 'heartbeat') return undefined;
      return trigger.heartbeats >= RETURN_HEARTBEATS ? 'active' : 'offline';
    case 'deprecated':
    case 'failed':
      return undefined;
  }
}
