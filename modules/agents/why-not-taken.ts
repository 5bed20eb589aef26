import type { AgentRow } from '../../db/agents.ts';

/** Why an agent takes no work now, in a sentence; undefined if it does. */
export function whyNotTaken({
  status,
  suspended,
  definition: { name, is_active: isActive },
}: Pick<AgentRow, 'status' | 'suspended' | 'definition'>): string | undefined {
  if (status === 'deprecated' || status === 'offline') return `The agent ${name} is ${status}.`;
  if (isActive === false) return `The agent ${name} is not active.`;
  return suspended ? `The agent ${name} is suspended.` : undefined;
}
