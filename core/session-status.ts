/** Derives a session's status from its newest run (docs/sessions.md). */
import { isTerminal, type RunStatus } from './events.ts';

export const SESSION_STATUSES = [
  'idle',
  'planning',
  'executing',
  'executing_queued',
  'waiting_approval',
  'completed',
  'completed_with_errors',
  'error',
  'interrupted',
] as const;
export type SessionStatus = (typeof SESSION_STATUSES)[number];

/** The facts that determine the status. All null or false if the session has no run yet. */
export interface SessionFacts {
  run_status: RunStatus | null;
  /** What the open turn waits for. */
  waits_for: 'approval' | 'user' | 'other' | null;
  /** Status of the newest turn. */
  turn_status: string | null;
  stop_reason: string | null;
  has_open_turn: boolean;
  /** Calls of the newest turn are running, or about to. */
  is_calling: boolean;
  /** A call of the newest turn failed, was denied or has an unknown outcome, unless it belongs to a plan that a person rejected. */
  has_errors: boolean;
  has_queued: boolean;
}

export function sessionStatus(facts: SessionFacts): SessionStatus {
  const { run_status, has_open_turn, has_queued } = facts;
  if (run_status === null) return 'idle';
  // Between turns, a queued message may wait for the agent that takes over the conversation.
  return (has_open_turn || has_queued) && !isTerminal(run_status) ? statusOfOpenTurn(facts) : statusAfter(facts);
}

/** Whether the open turn waits for the user's answer: to its agent, or to a remote agent whose call goes on elsewhere. */
export function isAsked({ run_status, waits_for }: Pick<SessionFacts, 'run_status' | 'waits_for'>): boolean {
  return waits_for === 'user' && (run_status === 'awaiting_human' || run_status === 'awaiting_tool');
}

/** An open turn is executing between model calls, and while it waits for a webhook or for time. */
function statusOfOpenTurn({ run_status, waits_for, is_calling, has_queued }: SessionFacts): SessionStatus {
  // Calls that need no approval may still run meanwhile.
  if (waits_for === 'approval' || isAsked({ run_status, waits_for })) return 'waiting_approval';
  if (has_queued) return 'executing_queued';
  const waits = waits_for !== null || run_status === 'awaiting_tool';
  return waits || is_calling ? 'executing' : 'planning';
}

function statusAfter({ turn_status, stop_reason, has_errors, run_status }: SessionFacts): SessionStatus {
  switch (turn_status) {
    case 'complete':
      return has_errors ? 'completed_with_errors' : 'completed';
    case 'failed':
      return 'error';
    case 'cancelled':
      return stop_reason === 'rejected' ? 'idle' : 'interrupted';
    default:
      return run_status === 'failed' ? 'error' : 'idle';
  }
}
