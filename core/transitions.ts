/** The state machine of a run (ARCHITECTURE.md, "States"), as data. */
import { isTerminal, type RunStatus } from './events.ts';

const NEXT: Record<RunStatus, readonly RunStatus[]> = {
  created: ['initializing', 'completed'],
  initializing: ['planning'],
  planning: ['executing', 'awaiting_human'],
  executing: ['executing', 'awaiting_tool', 'awaiting_human', 'reflecting'],
  awaiting_tool: ['executing', 'awaiting_human'],
  awaiting_human: ['planning', 'executing', 'completed'],
  reflecting: ['planning', 'awaiting_human', 'completed'],
  completed: [],
  failed: [],
  cancelled: [],
};

/** Whether a run may go from one status to another. Any unfinished one may be cancelled or fail. */
export function mayBecome(from: RunStatus, to: RunStatus): boolean {
  if (isTerminal(from)) return false;
  return to === 'failed' || to === 'cancelled' || NEXT[from].includes(to);
}
