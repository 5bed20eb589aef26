/**
 * The fields of event payloads that webhooks receive: ids, numbers and outcomes. Nothing written by a person, a model, a tool
 * or a client, and nothing that may quote them, such as error messages or names given by a model. Those allowed to read that
 * fetch it with a key.
 */
import type { EventType, NewEvent } from '../../core/events.ts';

type Payload<T extends EventType> = Extract<NewEvent, { type: T }>['payload'];
type Field<T extends EventType> = keyof Payload<T> & string;

const BUDGET = ['key', 'budget_id', 'name', 'max_tokens', 'max_cost_usd', 'max_steps', 'spent', 'open'] as const;
const APPROVAL = ['approval_id', 'tool_call_id', 'plan_id'] as const;
const POLICY = ['policy.id', 'policy.name', 'policy.version'] as const;

/** By type: fields, or `field.inner` for parts of an object or of a list's items. Unlisted types are sent without fields. */
export const TOLD_FIELDS: { readonly [T in EventType]?: readonly (Field<T> | `${Field<T>}.${string}`)[] } = {
  'run.created': [
    'agent_id',
    'agent_version',
    'thread_id',
    'thread_place',
    'keep_open',
    'kind',
    'depth',
    'parent_run_id',
    'root_run_id',
    'parent_task_id',
    'forked_from_run_id',
    'forked_at_seq',
    'retried_from',
    'traceparent',
  ],
  'run.forked': ['from_run_id', 'at_seq', 'checkpoint_id', 'mode', 'rerun_effects', 'steps', 'iteration', 'turn_count'],
  'run.started': [],
  'run.status_changed': ['from', 'to', 'waiting_for.type'],
  'run.completed': ['stop_reason', 'output_ordinal'],
  'run.failed': ['error.code'],
  'run.cancel_requested': [],
  'run.cancelled': [],
  'run.max_steps_reached': ['limit'],

  'turn.started': ['number', 'requested_by', 'continues'],
  'turn.completed': ['stop_reason', 'ordinal', 'checkpoint_id', 'structured'],
  'turn.failed': ['error.code', 'ordinal', 'checkpoint_id'],
  'run.erased': [],
  'turn.interrupted': ['reason'],
  'message.queued': ['message_id', 'mode'],
  'message.dequeued': ['message_id', 'as'],

  'checkpoint.saved': ['checkpoint_id', 'trigger'],
  'checkpoint.corrupt': ['checkpoint_id', 'at_seq'],

  'memory.retrieved': ['entries.id', 'entries.version', 'entries.score'],
  'node.entered': ['node', 'type', 'visit', 'from', 'ordinal', 'length'],
  'node.completed': ['node', 'visit', 'status', 'ordinal', 'tool_call_id', 'next', 'ends', 'answer', 'length'],

  'model.called': ['provider', 'model', 'length', 'estimated_tokens', 'tool_choice'],
  'model.responded': [
    'provider',
    'model',
    'stop_reason',
    'ordinal',
    'tool_calls',
    'intents',
    'usage',
    'cost_usd',
    'costs',
    'long_context',
    'tool',
    'latency_ms',
    'recorded',
    'differs',
  ],
  'model.retried': ['model', 'attempt', 'error.code', 'wait_ms'],
  'model.failed': ['model', 'tool', 'error.code'],
  'model.fell_back': ['from', 'to', 'error.code'],
  'budget.warned': [...BUDGET, 'approval_id'],
  'budget.exceeded': BUDGET,

  // Without the name: a model may have made it up.
  'tool.requested': ['tool_call_id', 'place', 'mode', 'effect', 'recorded_from', 'allowed_by'],
  'tool.started': ['tool_call_id', 'attempt'],
  'tool.succeeded': ['tool_call_id', 'latency_ms', 'output_bytes', 'signal_id'],
  'tool.failed': ['tool_call_id', 'error.code', 'attempts', 'latency_ms'],
  'tool.denied': ['tool_call_id', 'error.code'],
  'tool.unknown': ['tool_call_id', 'error.code', 'attempts'],
  'tool.resolved': ['tool_call_id', 'outcome'],
  'file.stored': ['tool_call_id', 'provider', 'file_id', 'mime_type', 'size'],
  'file.failed': ['tool_call_id', 'provider', 'error.code'],
  'input.requested': ['tool_call_id', 'type', 'timeout_seconds', 'until'],
  'client_tools.requested': ['tool_call_ids', 'timeout_seconds'],
  'signal.received': ['signal_id', 'type', 'tool_call_id'],
  'timer.fired': ['tool_call_id', 'type'],

  'model.deferred': ['model', 'error.code', 'since', 'next_at', 'until', 'alone'],
  'model.resumed': ['model', 'waited_ms'],
  'context.compacted': [
    'strategy',
    'first_kept_ordinal',
    'cleared_before',
    'tokens_before',
    'tokens_after',
    'budget_tokens',
  ],
  'context.transformed': ['reason', 'first_kept_ordinal', 'dropped_messages', 'dropped_tokens', 'budget_tokens'],
  'answer.validated': ['ordinal', 'attempt', 'as'],
  'answer.rejected': ['ordinal', 'attempt', 'last'],
  'reflection.completed': ['ordinal', 'attempt', 'meets_criteria', 'last'],
  'intent.rejected': ['tool_call_id', 'code', 'attempt'],
  'policy.decided': ['tool_call_id', 'decision', 'stage', ...POLICY],
  // Only registered tools get this far.
  'approval.requested': [...APPROVAL, 'kind', 'tool', 'expires_in_seconds', ...POLICY, 'four_eyes', 'calls'],
  'approval.granted': [...APPROVAL, 'edited', ...POLICY, 'decided_by'],
  'approval.denied': [...APPROVAL, 'decided_by'],
  'approval.expired': APPROVAL,
  'approval.settled': [...APPROVAL, 'decision', 'decided_by'],
  'plan.proposed': ['plan_id', 'max_risk_level', 'auto_executing', 'steps.tool_call_id', 'steps.risk_level'],
  'plan.approved': ['plan_id', 'approval_id'],
  'plan.rejected': ['plan_id'],
  'plan.refined': ['plan_id'],
  'plan.started': ['plan_id'],
  'plan.completed': ['plan_id', 'status', 'failed.tool_call_id'],

  'workflow.planned': ['replan', 'tasks'],
  'workflow.level_started': ['level', 'task_ids'],
  'workflow.concluded': ['ordinal', 'meets_criteria', 'gaps'],
  'task.assigned': ['task_id', 'run_id', 'agent_id', 'attempt', 'reason', 'score'],
  'task.completed': ['task_id', 'run_id', 'tokens', 'latency_ms'],
  'task.failed': ['task_id', 'run_id', 'error.code', 'final'],
  'task.retried': ['task_id', 'retry', 'asked'],
  'task.cancelled': ['task_id', 'run_id'],
  'handoff.initiated': ['handoff_id', 'task_id', 'source_agent_id', 'target_agent_id', 'tool_call_id'],
  'handoff.accepted': ['handoff_id', 'task_id', 'run_id', 'agent_id'],
  'handoff.completed': ['handoff_id', 'task_id', 'run_id'],
  'handoff.rejected': ['handoff_id', 'task_id', 'error.code'],
};

/** By type: the fields to read from the log. */
export const READ_FIELDS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(TOLD_FIELDS).map(([type, paths]) => [type, [...new Set(paths.map((path) => fieldOf(path)))]]),
);

/** The part of a payload that is sent; empty for types unknown to this build. */
export function toldPayload(type: string, payload: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const paths: readonly string[] = (Object.hasOwn(TOLD_FIELDS, type) && TOLD_FIELDS[type as EventType]) || [];
  const entries = Object.entries(payload).flatMap(([field, value]): [string, unknown][] => {
    if (paths.includes(field)) return [[field, value]];
    const inner = paths.filter((path) => path.startsWith(`${field}.`)).map((path) => path.slice(field.length + 1));
    return inner.length === 0 ? [] : [[field, pick(value, inner)]];
  });
  return Object.fromEntries(entries);
}

function pick(value: unknown, fields: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((each) => pick(each, fields));
  if (typeof value !== 'object' || value === null) return null;
  return Object.fromEntries(Object.entries(value).filter(([field]) => fields.includes(field)));
}

function fieldOf(path: string): string {
  return path.split('.')[0] ?? path;
}
