/** A message of a session's WebSocket (docs/sessions.md, Watching). */
export interface SessionFrame {
  type: SessionFrameType;
  session_id: string;
  plan_id?: string;
  /** For `plan_proposed`. */
  auto_executing?: boolean;
  payload: Record<string, unknown>;
  timestamp: string;
  /** Absent for frames that are not from the log. */
  seq?: number;
}

type SessionFrameType =
  | 'session_created'
  | 'session_resumed'
  | 'planning_started'
  | 'plan_proposed'
  | 'plan_approved'
  | 'plan_rejected'
  | 'plan_refined'
  | 'execution_started'
  | 'tool_call_started'
  | 'tool_call_completed'
  | 'tool_call_failed'
  | 'thinking'
  | 'answer_ready'
  | 'completed'
  | 'completed_with_errors'
  | 'waiting_for_approval'
  | 'message_queued'
  | 'interrupted'
  | 'error'
  | 'authorization_denied'
  | 'message_delta'
  | 'resumed';
