/**
 * The events of a run: a closed, versioned union. A payload holds ids, sizes and outcomes; what is large lives once in
 * `messages` or the ledger and is referred to. Names are past tense: an event is a fact.
 */
import { z } from 'zod';
import { SCHEMA_VERSION, upcast } from './upcast.ts';
import { GOVERNANCE_PAYLOADS } from './governance-events.ts';
import { attachment } from './content.ts';
import { INTENT_KINDS } from './intents.ts';
import { STOP_REASONS } from './model.ts';
import { runConfig } from './run-config.ts';

export const RUN_STATUSES = [
  'created',
  'initializing',
  'planning',
  'executing',
  'awaiting_tool',
  'awaiting_human',
  'reflecting',
  'completed',
  'failed',
  'cancelled',
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];

export const TERMINAL: readonly RunStatus[] = ['completed', 'failed', 'cancelled'];
export const isTerminal = (status: RunStatus) => TERMINAL.includes(status);

/** Stop reason of what ends for want of budget, and the error's code where it has failed. */
export const OUT_OF_BUDGET = 'budget';

const uuid = z.uuid();
const count = z.int().min(0);
const status = z.enum(RUN_STATUSES);
const problem = z.object({ code: z.string(), message: z.string() });
/** USD as a decimal string; null where the model's price is not known. */
const money = z.string().nullable();

const usage = z.object({
  input: count,
  output: count,
  thinking: count,
  cache_read: count,
  cache_write_5m: count,
  cache_write_1h: count,
});

const pinnedTool = z.object({ id: uuid, name: z.string(), version: z.string() });
export type PinnedTool = z.output<typeof pinnedTool>;

const turnInput = z.object({ message: z.string(), attachments: z.array(attachment).optional() });
/** What a turn begins with. */
export type TurnInput = z.output<typeof turnInput>;

/** What a recorded replay compares of a model's request; `end_of_record`: there is nothing to compare with. */
export const REQUEST_PARTS = ['model', 'system', 'tools', 'messages', 'settings', 'end_of_record'] as const;
export type RequestPart = (typeof REQUEST_PARTS)[number];

const keptSignal = z.object({
  id: z.string(),
  type: z.string(),
  name: z.string().nullable(),
  payload: z.unknown(),
  callId: z.null(),
});

const requestedCall = { tool_call_id: uuid };
/** The key that did it. */
const key = uuid.optional();

const spending = z.object({ tokens: count, cost_usd: z.number(), steps: count });

/** A budget as it stood: its limits, what is spent, and what is set aside for calls under way. */
const budgetStanding = {
  key: z.string(),
  budget_id: uuid.nullable(),
  name: z.string().nullable(),
  max_tokens: count.nullable(),
  max_cost_usd: z.number().nullable(),
  max_steps: count.nullable(),
  spent: spending,
  open: spending,
};

/** Payload schemas by type, of the current version (`core/upcast.ts`). */
export const PAYLOADS = {
  'run.created': z.object({
    agent_id: uuid,
    agent_version: z.string(),
    thread_id: uuid,
    lineage: uuid,
    lineage_base: z.array(z.object({ lineage: uuid, length: count })),
    base_length: count,
    keep_open: z.boolean(),
    kind: z.enum(['agent', 'workflow']),
    config: runConfig,
    pinned: z.object({ tools: z.array(pinnedTool) }),
    depth: count,
    parent_run_id: uuid.nullable(),
    root_run_id: uuid.nullable(),
    parent_task_id: uuid.nullable(),
    forked_from_run_id: uuid.nullable(),
    forked_at_seq: count.nullable(),
    retried_from: uuid.nullable(),
    traceparent: z.string().nullable(),
  }),
  /** Follows `run.created` where the run starts from a point of another one. */
  'run.forked': z.object({
    from_run_id: uuid,
    at_seq: count,
    /** Null where the point is none of the other run's checkpoints. */
    checkpoint_id: uuid.nullable(),
    mode: z.enum(['live', 'recorded']),
    rerun_effects: z.boolean(),
    /** Model calls of the other run before the point; `iteration` is the number that this run counts on from. */
    steps: count,
    iteration: count,
    turn_count: count,
    /** The step before the point had open calls: it is done again with the model's answer in that run's log. */
    redo: z.object({ run_id: uuid, step: count, settled: z.array(uuid) }).nullable(),
    /** The channels that were replaced. */
    modified: z.array(z.string()),
    custom: z.record(z.string(), z.unknown()),
    /** Signals that the other run had kept at the point, for whatever waits for them here. */
    signals: z.array(keptSignal).default([]),
  }),
  'run.started': z.object({}),
  'run.status_changed': z.object({
    from: status,
    to: status,
    /** What a run that is now `awaiting_human` in the middle of a turn waits for. */
    waiting_for: z
      .object({ type: z.enum(['user', 'approval', 'webhook', 'timer']), name: z.string().optional() })
      .optional(),
  }),
  'run.completed': z.object({ stop_reason: z.string(), output_ordinal: count.optional() }),
  'run.failed': z.object({ error: problem }),
  'run.cancel_requested': z.object({ reason: z.string().optional() }),
  'run.cancelled': z.object({}),
  'run.max_steps_reached': z.object({ limit: count }),

  'turn.started': z.object({
    number: z.int().min(1),
    input: turnInput,
    requested_by: key,
    /** The turn goes on in the middle: its message is in the conversation, after so many steps and calls. */
    continues: z.object({ steps: count, tool_calls: count }).optional(),
  }),
  'turn.completed': z.object({
    stop_reason: z.string(),
    ordinal: count,
    checkpoint_id: uuid.optional(),
  }),
  'turn.failed': z.object({
    error: problem,
    /** The message with the last that the model had said. */
    ordinal: count.optional(),
    checkpoint_id: uuid.optional(),
  }),
  'turn.interrupted': z.object({ reason: z.enum(['cancel', 'interrupt']) }),

  'model.called': z.object({
    provider: z.string(),
    model: z.string(),
    length: count,
    estimated_tokens: count,
    tool_choice: z.enum(['auto', 'none']),
  }),
  'model.responded': z.object({
    provider: z.string(),
    model: z.string(),
    stop_reason: z.enum(STOP_REASONS),
    ordinal: count,
    tool_calls: count,
    /** What it proposes: calls, or a plan of them, or the end; nothing where it pauses. */
    intents: z.array(z.enum(INTENT_KINDS)).optional(),
    usage,
    cost_usd: money,
    latency_ms: count,
    /** In a replay: the answer is the record's; its tokens were spent there. */
    recorded: z.boolean().optional(),
    /** In a recorded replay: what made this request another one than the record's. The rest is live. */
    differs: z.array(z.enum(REQUEST_PARTS)).optional(),
  }),
  'model.retried': z.object({ model: z.string(), attempt: count, error: problem, wait_ms: count }),
  'model.failed': z.object({
    model: z.string(),
    error: problem,
    /** What it had said by then. After the turn's end where the turn was cancelled meanwhile. */
    partial: z.string().optional(),
  }),
  'model.fell_back': z.object({ from: z.string(), to: z.string(), error: problem }),

  'tool.requested': z.object({
    ...requestedCall,
    tool_use_id: z.string(),
    place: count,
    name: z.string(),
    mode: z.enum(['pure', 'inline', 'queued', 'wait']),
    effect: z.enum(['read_only', 'idempotent', 'unknown']),
    /** In a replay: the call of the record that answers this one, which is not made. */
    recorded_from: uuid.optional(),
    /** The gate let it pass without a rule; any other decision is an event of its own. */
    allowed_by: z.string().optional(),
  }),
  'tool.started': z.object({ ...requestedCall, attempt: z.int().min(1) }),
  'tool.succeeded': z.object({
    ...requestedCall,
    latency_ms: count,
    output_bytes: count,
    /** The signal that the call waited for. */
    signal_id: z.string().optional(),
  }),
  'tool.failed': z.object({ ...requestedCall, error: problem, attempts: count, latency_ms: count.optional() }),
  'tool.denied': z.object({ ...requestedCall, error: problem }),
  'tool.unknown': z.object({ ...requestedCall, error: problem, attempts: count }),

  /** A person has said what became of a call of unknown outcome. */
  'tool.resolved': z.object({ ...requestedCall, outcome: z.enum(['succeeded', 'unknown']) }),

  ...GOVERNANCE_PAYLOADS,
  /** A call that something from outside answers: a signal of this type and name. */
  'input.requested': z.object({
    ...requestedCall,
    type: z.enum(['user', 'webhook', 'timer']),
    name: z.string().optional(),
    question: z.string().optional(),
    /** When the wait ends unanswered: so long from now, or then. */
    timeout_seconds: z.number().optional(),
    until: z.iso.datetime().optional(),
  }),
  /** Calls that the client executes, all that are open; a partial set of results asks for the rest again. */
  'client_tools.requested': z.object({ tool_call_ids: z.array(uuid), timeout_seconds: z.number().optional() }),
  'signal.received': z.object({
    signal_id: z.string(),
    type: z.enum(['approval', 'timer', 'webhook', 'user', 'tool_results']),
    name: z.string().optional(),
    payload: z.unknown(),
    /** The call that it is for, where it is for one alone. */
    tool_call_id: uuid.optional(),
  }),
  /** The time of a wait is up: a timer's is what it waited for, any other's is its failure. */
  'timer.fired': z.object({
    ...requestedCall,
    type: z.enum(['user', 'webhook', 'timer', 'tool_results']),
    name: z.string().optional(),
  }),

  /** A soft limit was passed; with `approval_id` a person is asked whether to go on. */
  'budget.warned': z.object({ ...budgetStanding, approval_id: uuid.optional() }),
  /** No room is left for another model call: the turn stops with what it has. */
  'budget.exceeded': z.object(budgetStanding),

  'checkpoint.saved': z.object({ checkpoint_id: uuid, trigger: z.enum(['turn_complete', 'tool_result', 'manual']) }),
  'checkpoint.corrupt': z.object({ checkpoint_id: uuid, at_seq: count, problem: z.string() }),
} as const;

export type EventType = keyof typeof PAYLOADS;
export const EVENT_TYPES = Object.keys(PAYLOADS) as EventType[];

/** Who did it: a user over the API, the agent's model, a worker, or Drover itself. */
export type Actor = 'user' | 'agent' | 'worker' | 'system';

type Payload<T extends EventType> = z.output<(typeof PAYLOADS)[T]>;

/** An event that is about to be written; the commit gives it its sequence number and time. */
export type NewEvent = {
  [T in EventType]: {
    type: T;
    payload: Payload<T>;
    turn_id?: string | undefined;
    step?: number | undefined;
    actor: Actor;
  };
}[EventType];

/** An event of the log. `seq` starts at 1 and has no gaps; `occurred_at` is the database's clock, RFC 3339. */
export type RunEvent = NewEvent & { seq: number; occurred_at: string };

/** A stored event that this build cannot read: a newer type or payload. The run is released, not failed. */
export class UnknownEventError extends Error {
  constructor(type: string, version: number) {
    super(`event ${type} version ${version} is newer than this build`);
    this.name = 'UnknownEventError';
  }
}

/** Validates an event that is about to be written. Throws a ZodError for a payload that does not fit its type. */
export function checkEvent(event: NewEvent): NewEvent {
  PAYLOADS[event.type].parse(event.payload);
  return event;
}

/** An event as a commit takes it, with the version of its payload. Written out: one shape for all of them. */
export function toLogged({ type, actor, turn_id, step, payload }: NewEvent) {
  return { type, actor, turn_id, step, payload, schema_version: SCHEMA_VERSION };
}

/** An event as the log will have it at a position, but for the time. Written out, since the fold reads it in a hundred places. */
export function atSeq({ type, payload, turn_id, step, actor }: NewEvent, seq: number): RunEvent {
  return { type, payload, turn_id, step, actor, seq, occurred_at: '' } as RunEvent;
}

/** A row of `run_events`, which an older or a newer build may have written. */
export interface StoredEvent {
  seq: number;
  type: string;
  schema_version: number;
  turn_id: string | null;
  step: number | null;
  actor: string;
  payload: unknown;
  occurred_at: string | Date;
}

/** A stored event as a typed one. Throws `UnknownEventError` for what this build does not know. */
export function readEvent(row: StoredEvent): RunEvent {
  const isNewer = row.schema_version > SCHEMA_VERSION;
  const event = isNewer ? row : upcast(row, row.schema_version);
  if (isNewer || !Object.hasOwn(PAYLOADS, event.type)) throw new UnknownEventError(row.type, row.schema_version);
  const type = event.type as EventType;
  return {
    type,
    payload: PAYLOADS[type].parse(event.payload),
    turn_id: row.turn_id ?? undefined,
    step: row.step ?? undefined,
    actor: row.actor as Actor,
    seq: row.seq,
    occurred_at: typeof row.occurred_at === 'string' ? row.occurred_at : row.occurred_at.toISOString(),
  } as RunEvent;
}
