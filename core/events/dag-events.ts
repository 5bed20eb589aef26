/** Events of workflows: how work was split, who was assigned what, and the results. */
import { z } from 'zod';
import { count, defineEvent, problem, uuid } from './event.ts';

const ofTask = { task_id: uuid };
/** The child that works on the task. */
const ofChild = { ...ofTask, run_id: uuid };

const ofHandoff = { handoff_id: uuid, task_id: uuid.optional() };

export const DAG_EVENTS = {
  /** The subtasks and their dependencies; their descriptions are stored with the tasks. `replan`: 0 for the first plan. */
  'workflow.planned': defineEvent(1, {
    replan: count,
    tasks: z.array(z.object({ ...ofTask, dependencies: z.array(uuid) })),
  }),
  /** For workflows that run by levels: the subtasks of the next level, which start now. */
  'workflow.level_started': defineEvent(1, { level: count, task_ids: z.array(uuid) }),
  /** The final answer is in the conversation, which then has `length` messages. */
  'workflow.concluded': defineEvent(1, {
    ordinal: count,
    length: count,
    /** Whether the answer meets the success criteria; null if it was not checked. */
    meets_criteria: z.boolean().nullable(),
    gaps: count,
  }),

  'task.assigned': defineEvent(1, {
    ...ofChild,
    agent_id: uuid,
    /** From 1. */
    attempt: z.int().min(1),
    reason: z.enum(['named', 'matched', 'workflow_agent', 'handoff']),
    score: z.number().optional(),
  }),
  'task.completed': defineEvent(1, { ...ofChild, tokens: count, latency_ms: count }),
  /** This attempt has failed; `task.retried` follows if there is another. */
  'task.failed': defineEvent(1, { ...ofTask, run_id: uuid.optional(), error: problem, final: z.boolean() }),
  /** The task is tried again; `asked`: because a person wanted it. */
  'task.retried': defineEvent(1, { ...ofTask, retry: z.int().min(1), asked: z.boolean() }),
  'task.cancelled': defineEvent(1, { ...ofTask, run_id: uuid.optional() }),

  /** One agent hands its work to another; the content is stored with the handoff. For a task: in the log of its workflow. */
  'handoff.initiated': defineEvent(1, {
    ...ofHandoff,
    source_agent_id: uuid,
    target_agent_id: uuid,
    tool_call_id: uuid.optional(),
  }),
  /** The target has begun, in its own run. */
  'handoff.accepted': defineEvent(1, { ...ofHandoff, run_id: uuid, agent_id: uuid }),
  'handoff.completed': defineEvent(1, { ...ofHandoff, run_id: uuid }),
  /** The target refuses: the work goes back to the source. */
  'handoff.rejected': defineEvent(1, { ...ofHandoff, error: problem }),
} as const;
