/** The status of a session, as it follows from its newest run (docs/sessions.md). */
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

/** What the status follows from. All null or false where the session has had no run. */
export interface SessionFacts {
  run_status: RunStatus | null;
  /** What the open turn waits for from outside. */
  waits_for: 'approval' | 'user' | 'other' | null;
  /** Of the newest turn. */
  turn_status: string | null;
  stop_reason: string | null;
  has_open_turn: boolean;
  /** Calls of the newest turn are made, or about to be. */
  is_calling: boolean;
  /** A call of the newest turn has failed or was denied, or its outcome is unknown; not one of a plan that a person has rejected. */
  has_errors: boolean;
  has_queued: boolean;
}

export function sessionStatus(facts: SessionFacts): SessionStatus {
  const { run_status, has_open_turn, has_queued } = facts;
  if (run_status === null) return 'idle';
  // Between turns a message waits for the agent that the conversation is handed to.
  return (has_open_turn || has_queued) && !isTerminal(run_status) ? statusOfOpenTurn(facts) : statusAfter(facts);
}

/** Whether the open turn has a question for the user: its agent's, or that of a remote agent, whose call goes on elsewhere. */
export function isAsked({ run_status, waits_for }: Pick<SessionFacts, 'run_status' | 'waits_for'>): boolean {
  return waits_for === 'user' && (run_status === 'awaiting_human' || run_status === 'awaiting_tool');
}

/** Between its model calls a turn is executing; one that waits for a webhook or for the time is, too. */
function statusOfOpenTurn({ run_status, waits_for, is_calling, has_queued }: SessionFacts): SessionStatus {
  // What needs no approval may still be called meanwhile.
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
