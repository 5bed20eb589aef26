/** Events of workflows: how the work was split, who was given what, and what came of it. */
import { z } from 'zod';
import { count, defineEvent, problem, uuid } from './event.ts';

const ofTask = { task_id: uuid };
/** The child that works on the task. */
const ofChild = { ...ofTask, run_id: uuid };

const ofHandoff = { handoff_id: uuid, task_id: uuid.optional() };

export const DAG_EVENTS = {
  /** The subtasks and what each of them needs; what they are about is with the tasks. `replan`: 0 for the first plan. */
  'workflow.planned': defineEvent(1, {
    replan: count,
    tasks: z.array(z.object({ ...ofTask, dependencies: z.array(uuid) })),
  }),
  /** Where a workflow goes by levels: the subtasks of the next one, which start now. */
  'workflow.level_started': defineEvent(1, { level: count, task_ids: z.array(uuid) }),
  /** The answer of all of it is in the conversation, which then has `length` messages. */
  'workflow.concluded': defineEvent(1, {
    ordinal: count,
    length: count,
    /** Whether it meets the success criteria; null where nobody has looked. */
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
  /** It has failed, as far as this attempt goes: `task.retried` says where another one follows. */
  'task.failed': defineEvent(1, { ...ofTask, run_id: uuid.optional(), error: problem, final: z.boolean() }),
  /** It is tried again; `asked`: a person has wanted that. */
  'task.retried': defineEvent(1, { ...ofTask, retry: z.int().min(1), asked: z.boolean() }),
  'task.cancelled': defineEvent(1, { ...ofTask, run_id: uuid.optional() }),

  /** One agent hands its work to another; what it hands over is with the handoff. Of a task in the log of its workflow. */
  'handoff.initiated': defineEvent(1, {
    ...ofHandoff,
    source_agent_id: uuid,
    target_agent_id: uuid,
    tool_call_id: uuid.optional(),
  }),
  /** The target has begun, in a run of its own. */
  'handoff.accepted': defineEvent(1, { ...ofHandoff, run_id: uuid, agent_id: uuid }),
  'handoff.completed': defineEvent(1, { ...ofHandoff, run_id: uuid }),
  /** The target does not take it: the work goes back to the source. */
  'handoff.rejected': defineEvent(1, { ...ofHandoff, error: problem }),
} as const;
