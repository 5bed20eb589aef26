/**
 * The events of a run: a closed, versioned union. A payload holds ids, sizes and outcomes; large values are stored once, in
 * `messages` or the ledger, and referenced. Names are past tense: an event is a fact.
 */
import { z } from 'zod';
import { calibration } from './calibration.ts';
import { refusedFiles } from './refused-files.ts';
import { compaction } from './compaction.ts';
import { attachment } from './content.ts';
import { CHECK_EVENTS } from './events/check-events.ts';
import { count, defineEvent, key, problem, replaced, uuid, type EventSchema } from './events/event.ts';
import { DAG_EVENTS } from './events/dag-events.ts';
import { FILE_EVENTS } from './events/file-events.ts';
import { graphState } from './graph/position.ts';
import { GRAPH_EVENTS } from './events/graph-events.ts';
import { GOVERNANCE_EVENTS } from './events/governance-events.ts';
import { MEMORY_EVENTS } from './events/memory-events.ts';
import { MODEL_EVENTS } from './events/model-events.ts';
import { TOOL_EVENTS } from './events/tool-events.ts';
import { READINGS } from './output-format.ts';
import { runConfig } from './run-config.ts';
import { RUN_STATUSES, type RunStatus } from './run-status.ts';
import { upcast } from './upcast.ts';

export { RUN_STATUSES };
export type { RunStatus };

/** What drives the run: its agent's loop, or the scheduler of its tasks. */
export const RUN_KINDS = ['agent', 'workflow'] as const;
export type RunKind = (typeof RUN_KINDS)[number];

export const TERMINAL: readonly RunStatus[] = ['completed', 'failed', 'cancelled'];
export const isTerminal = (status: RunStatus) => TERMINAL.includes(status);

/** Stop reason of a run or turn that a used-up budget ends; also the error code if it failed. */
export const OUT_OF_BUDGET = 'budget';

/** Used as the tool of approvals that ask whether to retry a failed subtask. */
export const SUBTASK = 'subtask';

const status = z.enum(RUN_STATUSES);
const pinnedTool = z.object({
  id: uuid,
  name: z.string(),
  version: z.string(),
  /** For a retry or a replay: the tool's version at that time, which guards its calls, too. */
  guarded_by: z.string().optional(),
});
export type PinnedTool = z.output<typeof pinnedTool>;

/** Limits of the run's model calls, in tokens. Pinned, so that later changes of tables and defaults have no effect. */
const pinnedLimits = z.object({
  /** `provider/model`. Other models, such as fallbacks, have their own window. */
  model: z.string(),
  /** Prompt and answer together. */
  context_window: count,
  /** Limit of the conversation alone; null if only the window limits it. */
  conversation_tokens: count.nullable(),
  output_tokens: count,
});
export type PinnedLimits = z.output<typeof pinnedLimits>;

/** The client's own data. Nothing here reads it. */
const metadata = z.record(z.string(), z.string()).optional();

const message = z.object({
  message: z.string(),
  attachments: z.array(attachment).optional(),
  /** The schema that the final answer must fit. */
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /** It contains results of others, or texts of files, for parts of which nobody vouches. */
  untrusted: z.literal(true).optional(),
  /** For the request that brought the message. */
  replaced,
});
const turnInput = message.extend({
  metadata,
  /** The sender's id of the message. */
  message_id: z.string().optional(),
});
/** The input that starts a turn, or steers an open one. */
export type TurnInput = z.output<typeof turnInput>;

const keptSignal = z.object({
  id: z.string(),
  type: z.string(),
  name: z.string().nullable(),
  payload: z.unknown(),
  callId: z.null(),
});

/** Events of the run itself, its turns and checkpoints. */
const RUN_EVENTS = {
  'run.created': defineEvent(4, {
    agent_id: uuid,
    agent_version: z.string(),
    thread_id: uuid,
    /** Number of the run on its thread, from 1. Version 1 lacks it; the run's row has it in any case. */
    thread_place: z.int().min(1).optional(),
    lineage: uuid,
    lineage_base: z.array(z.object({ lineage: uuid, length: count })),
    base_length: count,
    keep_open: z.boolean(),
    kind: z.enum(RUN_KINDS),
    config: runConfig,
    metadata,
    pinned: z.object({ tools: z.array(pinnedTool), limits: pinnedLimits.optional() }),
    /** Set if the inherited conversation was compacted: what is sent in place of its beginning. */
    context: compaction.optional(),
    /** The last container of the provider's code on this thread. */
    container_id: z.string().optional(),
    /** Corrections of token estimates, from earlier runs of the thread. */
    calibration: calibration.optional(),
    /** Ordinals of the thread's messages that came in the middle of a turn: conversations are not cut before them. */
    steered: z.array(z.int().min(0)).optional(),
    /** Messages of the thread that are sent without their images and files, since a provider has refused one. */
    refused_files: z.array(refusedFiles).optional(),
    /** Where the conversation that models were sent began at the end of the thread's last run: it is not read from before. */
    cut: z.object({ first_kept_ordinal: count, dropped_tokens: count, budget_tokens: count }).optional(),
    /** The thread's last run left untrusted results that no model has read. */
    untrusted: z.literal(true).optional(),
    depth: count,
    parent_run_id: uuid.nullable(),
    root_run_id: uuid.nullable(),
    parent_task_id: uuid.nullable(),
    forked_from_run_id: uuid.nullable(),
    forked_at_seq: count.nullable(),
    retried_from: uuid.nullable(),
    traceparent: z.string().nullable(),
  }),
  /** Follows `run.created` if the run starts from a point of another run. */
  'run.forked': defineEvent(3, {
    from_run_id: uuid,
    at_seq: count,
    /** Null if the point is not a checkpoint of the other run. */
    checkpoint_id: uuid.nullable(),
    mode: z.enum(['live', 'recorded']),
    rerun_effects: z.boolean(),
    /** The other run's model calls before the point; this run continues counting at `iteration`. */
    steps: count,
    iteration: count,
    turn_count: count,
    /** Set if the step before the point had open calls: it is redone with the model's answer from that run's log. */
    redo: z.object({ run_id: uuid, step: count, settled: z.array(uuid) }).nullable(),
    /** Names of replaced channels. */
    modified: z.array(z.string()),
    custom: z.record(z.string(), z.unknown()),
    /** Signals that the other run had kept at the point, for waits of this one. */
    signals: z.array(keptSignal).default([]),
    /** The position in the agent's graph. */
    graph: graphState.optional(),
    /** The conversation ends with untrusted content that no model has answered to. */
    untrusted: z.literal(true).optional(),
  }),
  'run.started': defineEvent(1, {}),
  'run.status_changed': defineEvent(1, {
    from: status,
    to: status,
    /** What a run waits for that becomes `awaiting_human` in the middle of a turn. */
    waiting_for: z
      .object({ type: z.enum(['user', 'approval', 'webhook', 'timer']), name: z.string().optional() })
      .optional(),
  }),
  'run.completed': defineEvent(1, { stop_reason: z.string(), output_ordinal: count.optional() }),
  'run.failed': defineEvent(1, { error: problem }),
  'run.cancel_requested': defineEvent(1, { reason: z.string().optional() }),
  'run.cancelled': defineEvent(1, {}),
  /** The content is erased. Outcomes of attempts that were under way are not written any more. */
  'run.erased': defineEvent(1, { requested_by: key }),
  'run.max_steps_reached': defineEvent(1, { limit: count }),

  'turn.started': defineEvent(6, {
    number: z.int().min(1),
    input: turnInput,
    requested_by: key,
    /** Of the request that has begun a later turn than the first, whose is the run's. */
    traceparent: z.string().optional(),
    /** The turn continues one in progress: its message is already in the conversation, as are these steps and calls. */
    continues: z
      .object({
        steps: count,
        tool_calls: count,
        /** The continued turn had read content that nobody vouches for. */
        untrusted: z.literal(true).optional(),
      })
      .optional(),
  }),
  'turn.completed': defineEvent(2, {
    stop_reason: z.string(),
    ordinal: count,
    checkpoint_id: uuid.optional(),
    /** How to read the value of an answer that has to fit a schema. */
    structured: z.enum(READINGS).optional(),
    /** The turn had read content that nobody vouches for. */
    untrusted: z.literal(true).optional(),
  }),
  'turn.failed': defineEvent(1, {
    error: problem,
    /** The last message of the model in the turn. */
    ordinal: count.optional(),
    checkpoint_id: uuid.optional(),
  }),
  /** `interrupt`, `reject`: a person stopped the turn, or rejected its plan; the run goes on with the next turn. */
  'turn.interrupted': defineEvent(2, { reason: z.enum(['cancel', 'interrupt', 'reject']) }),

  /** A message that came while a turn was open. A newer one takes its place. `steer`: the turn is to read it before its next model call. */
  'message.queued': defineEvent(4, {
    message_id: uuid,
    mode: z.enum(['queue', 'steer']),
    input: message,
    requested_by: key,
    /** In a run that was forked from another: the turn had read it there, and it stood at this place of the conversation. */
    read_at: count.optional(),
  }),
  /** The message starts the next turn, or joins the conversation of the open one, which then has `length` messages. */
  'message.dequeued': defineEvent(1, {
    message_id: uuid,
    as: z.enum(['turn', 'steer']),
    length: count.optional(),
    /** It brings untrusted files into the turn it steers. */
    untrusted: z.literal(true).optional(),
  }),

  'checkpoint.saved': defineEvent(1, {
    checkpoint_id: uuid,
    trigger: z.enum(['turn_complete', 'tool_result', 'manual']),
  }),
  'checkpoint.corrupt': defineEvent(1, { checkpoint_id: uuid, at_seq: count, problem: z.string() }),
} as const;

/** Every type of event, with the version and the schema of its payload. */
export const EVENTS = {
  ...RUN_EVENTS,
  ...MODEL_EVENTS,
  ...CHECK_EVENTS,
  ...MEMORY_EVENTS,
  ...TOOL_EVENTS,
  ...FILE_EVENTS,
  ...GOVERNANCE_EVENTS,
  ...DAG_EVENTS,
  ...GRAPH_EVENTS,
} satisfies Record<string, EventSchema>;

export type EventType = keyof typeof EVENTS;
export const EVENT_TYPES = Object.keys(EVENTS) as EventType[];

/** The sum of all schema versions. It rises with every new type or version: a build with a lower value may not read all events. */
export const LOG_VERSION = Object.values(EVENTS).reduce((sum, { version }) => sum + version, 0);

/** Who caused the event: a user over the API, the agent's model, a worker, or Drover itself. */
export type Actor = 'user' | 'agent' | 'worker' | 'system';

type Payload<T extends EventType> = z.output<(typeof EVENTS)[T]['payload']>;

/** An event before it is written; the commit assigns its sequence number and time. */
export type NewEvent = {
  [T in EventType]: {
    type: T;
    payload: Payload<T>;
    turn_id?: string | undefined;
    step?: number | undefined;
    actor: Actor;
  };
}[EventType];

/** An event of the log. `seq` starts at 1 without gaps; `occurred_at` is database time, RFC 3339. */
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
  EVENTS[event.type].payload.parse(event.payload);
  return event;
}

/** An event in the form a commit takes, with its payload's version. Written out, so that all have one shape. */
export function toLogged({ type, actor, turn_id, step, payload }: NewEvent) {
  return { type, actor, turn_id, step, payload, schema_version: EVENTS[type].version };
}

/** An event as it will be in the log, without its time. Written out, since the fold reads it in a hundred places. */
export function atSeq({ type, payload, turn_id, step, actor }: NewEvent, seq: number): RunEvent {
  return { type, payload, turn_id, step, actor, seq, occurred_at: '' } as RunEvent;
}

/** An event as `run_events` returns it; an older or newer build may have written it. */
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

/** Converts a stored event to a typed one. Throws `UnknownEventError` for types and versions unknown to this build. */
export function readEvent(row: StoredEvent): RunEvent {
  const { type, schema_version: version } = row;
  if (!isKnown(type) || version > EVENTS[type].version) throw new UnknownEventError(type, version);
  return {
    type,
    payload: EVENTS[type].payload.parse(currentPayload(row)),
    turn_id: row.turn_id ?? undefined,
    step: row.step ?? undefined,
    actor: row.actor as Actor,
    seq: row.seq,
    occurred_at: typeof row.occurred_at === 'string' ? row.occurred_at : row.occurred_at.toISOString(),
  } as RunEvent;
}

/** The payload of a stored event in its current version; unchanged for types and versions unknown to this build. */
export function currentPayload({
  type,
  schema_version: from,
  payload,
}: Pick<StoredEvent, 'type' | 'schema_version' | 'payload'>): unknown {
  return isKnown(type) ? upcast({ type, from, to: EVENTS[type].version }, payload) : payload;
}

function isKnown(type: string): type is EventType {
  return Object.hasOwn(EVENTS, type);
}
