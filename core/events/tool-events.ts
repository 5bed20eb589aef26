/** Events of tool calls, and of what calls wait for. */
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
    /** In a replay: the call of the record that answers this one, which is not made. */
    recorded_from: uuid.optional(),
    /** Nobody vouches for what it answers. */
    untrusted: z.literal(true).optional(),
    /** The events of the turn that had brought untrusted content when it was asked for. */
    tainted_by: z.array(count).optional(),
    /** The gate let it pass without a rule; any other decision is an event of its own. */
    allowed_by: z.string().optional(),
  }),
  'tool.started': defineEvent(1, { ...requestedCall, attempt: z.int().min(1) }),
  'tool.succeeded': defineEvent(3, {
    ...requestedCall,
    latency_ms: count,
    output_bytes: count,
    /** Nobody vouches for all of it, whatever is said of its tool. */
    untrusted: z.literal(true).optional(),
    /** Of its output. */
    replaced,
    /** The signal that the call waited for. */
    signal_id: z.string().optional(),
  }),
  'tool.failed': defineEvent(2, {
    ...requestedCall,
    error: problem,
    attempts: count,
    latency_ms: count.optional(),
    /** Of what it has answered all the same. */
    replaced,
  }),
  'tool.denied': defineEvent(1, { ...requestedCall, error: problem }),
  'tool.unknown': defineEvent(1, { ...requestedCall, error: problem, attempts: count }),
  /** What became of a call of unknown outcome: a person has said it, or its attempt has ended after all. */
  'tool.resolved': defineEvent(3, {
    ...requestedCall,
    outcome: z.enum(['succeeded', 'failed', 'unknown']),
    /** Absent where a person has. */
    by: z.enum(['late_result']).optional(),
    /** Of an output that has come late. */
    replaced,
    error: problem.optional(),
  }),

  /** A call that something from outside answers: a signal of this type and name. */
  'input.requested': defineEvent(2, {
    ...requestedCall,
    /** `child`: the end of a run that works on what was delegated. */
    type: z.enum(['user', 'webhook', 'timer', 'child']),
    name: z.string().optional(),
    question: z.string().optional(),
    /** When the wait ends unanswered: so long from now, or then. */
    timeout_seconds: z.number().optional(),
    until: z.iso.datetime().optional(),
  }),

  /** Calls that the client executes, all that are open; a partial set of results asks for the rest again. */
  'client_tools.requested': defineEvent(1, { tool_call_ids: z.array(uuid), timeout_seconds: z.number().optional() }),

  'signal.received': defineEvent(2, {
    signal_id: z.string(),
    type: z.enum(['approval', 'timer', 'webhook', 'user', 'tool_results']),
    name: z.string().optional(),
    payload: z.unknown(),
    /** The call that it is for, where it is for one alone. */
    tool_call_id: uuid.optional(),
    requested_by: key,
  }),

  /** The time of a wait is up: a timer's is what it waited for, any other's is its failure. */
  'timer.fired': defineEvent(2, {
    ...requestedCall,
    type: z.enum(['user', 'webhook', 'timer', 'tool_results', 'child']),
    name: z.string().optional(),
  }),
} as const;
