/** The state machine of a run (doc 000, "State Machine Definition"; decisions.md adds to it), as data. */
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

/** The statuses a run passes on its way, `from` excluded, where the way is the shortest legal one; null where there is none. */
export function wayTo(from: RunStatus, to: RunStatus): RunStatus[] | null {
  const cameFrom = new Map<RunStatus, RunStatus | null>([[from, null]]);
  const open: RunStatus[] = [from];
  for (let at = open.shift(); at !== undefined; at = open.shift()) {
    for (const next of neighbours(at)) {
      if (cameFrom.has(next)) continue;
      cameFrom.set(next, at);
      open.push(next);
    }
  }
  return cameFrom.has(to) && from !== to ? backFrom(to, cameFrom) : null;
}

function neighbours(status: RunStatus): RunStatus[] {
  return isTerminal(status) ? [] : [...NEXT[status], 'failed', 'cancelled'];
}

function backFrom(to: RunStatus, cameFrom: Map<RunStatus, RunStatus | null>): RunStatus[] {
  const way: RunStatus[] = [];
  for (let at: RunStatus | null | undefined = to; at; at = cameFrom.get(at)) way.unshift(at);
  return way.slice(1);
}
