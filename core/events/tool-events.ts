/** Events of tool calls and their waits. */
import { z } from 'zod';
import { count, defineEvent, key, problem, replaced, requestedCall, uuid } from './event.ts';

export const TOOL_EVENTS = {
  'tool.requested': defineEvent(3, {
    ...requestedCall,
    tool_use_id: z.string(),
    place: count,
    name: z.string(),
    mode: z.enum(['pure', 'inline', 'queued', 'wait']),
    effect: z.enum(['read_only', 'idempotent', 'unknown']),
    /** In a replay: the recorded call that answers this one, which is not made. */
    recorded_from: uuid.optional(),
    /** Nobody vouches for its answer. */
    untrusted: z.literal(true).optional(),
    /** Earlier events of the turn that brought untrusted content. */
    tainted_by: z.array(count).optional(),
    /** The gate allowed it without a rule; other decisions have an event of their own. */
    allowed_by: z.string().optional(),
  }),
  'tool.started': defineEvent(1, { ...requestedCall, attempt: z.int().min(1) }),
  'tool.succeeded': defineEvent(3, {
    ...requestedCall,
    latency_ms: count,
    output_bytes: count,
    /** Nobody vouches for all of the output, even if its tool is trusted. */
    untrusted: z.literal(true).optional(),
    /** For its output. */
    replaced,
    /** The signal that answered the call. */
    signal_id: z.string().optional(),
  }),
  'tool.failed': defineEvent(2, {
    ...requestedCall,
    error: problem,
    attempts: count,
    latency_ms: count.optional(),
    /** Nobody vouches for what it says, even if its tool is trusted. */
    untrusted: z.literal(true).optional(),
    /** For output that it returned despite failing. */
    replaced,
  }),
  'tool.denied': defineEvent(1, { ...requestedCall, error: problem }),
  'tool.unknown': defineEvent(1, { ...requestedCall, error: problem, attempts: count }),
  /** The outcome of a call, unknown until now: from a person, or because its attempt ended after all. */
  'tool.resolved': defineEvent(4, {
    ...requestedCall,
    outcome: z.enum(['succeeded', 'failed', 'unknown']),
    /** Absent if a person said so. */
    by: z.enum(['late_result']).optional(),
    /** Nobody vouches for the output, or the error, that came late. */
    untrusted: z.literal(true).optional(),
    /** For output that came late. */
    replaced,
    error: problem.optional(),
  }),

  /** A call that waits for a signal from outside, of this type and name. */
  'input.requested': defineEvent(2, {
    ...requestedCall,
    /** `child`: the end of the run that does the delegated work. */
    type: z.enum(['user', 'webhook', 'timer', 'child']),
    name: z.string().optional(),
    question: z.string().optional(),
    /** When the wait times out: after a duration, or at a time. */
    timeout_seconds: z.number().optional(),
    until: z.iso.datetime().optional(),
  }),

  /** All open calls of the client's own tools. After a partial set of results, the rest is requested again. */
  'client_tools.requested': defineEvent(1, { tool_call_ids: z.array(uuid), timeout_seconds: z.number().optional() }),

  'signal.received': defineEvent(2, {
    signal_id: z.string(),
    type: z.enum(['approval', 'timer', 'webhook', 'user', 'tool_results']),
    name: z.string().optional(),
    payload: z.unknown(),
    /** The only call it is for, if it is for one alone. */
    tool_call_id: uuid.optional(),
    requested_by: key,
    /** In what it brings: its payload, or the results. */
    replaced,
  }),

  /** A wait has timed out: that answers a timer, and fails any other wait. */
  'timer.fired': defineEvent(2, {
    ...requestedCall,
    type: z.enum(['user', 'webhook', 'timer', 'tool_results', 'child']),
    name: z.string().optional(),
  }),
} as const;
