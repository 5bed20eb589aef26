/**
 * Erases the content of a run's events. Ids, numbers, times, enum values and the fields named below stay, so that the log
 * still folds. Other texts, and values without a fixed form, are content: what is not named is erased.
 */
import { z } from 'zod';
import { currentPayload, EVENTS, type EventType, type StoredEvent } from './events.ts';

/**
 * Text fields that reveal nothing of a conversation, by event type and path in the payload: names that a tenant has set up,
 * codes, versions. Tools of a plan are not among them: a model may have made up their names.
 */
const KEPT_TEXTS: Readonly<Partial<Record<EventType, readonly string[]>>> = {
  'run.created': [
    'agent_version',
    'config.model_override',
    'pinned.limits.model',
    'pinned.tools.name',
    'pinned.tools.version',
    'pinned.tools.guarded_by',
    'traceparent',
  ],
  'turn.started': ['traceparent'],
  'run.completed': ['stop_reason'],
  'run.failed': ['error.code'],
  'turn.completed': ['stop_reason'],
  'turn.failed': ['error.code'],
  'model.called': ['provider', 'model', 'tool_choice.tool'],
  'model.responded': [
    'provider',
    'model',
    'tool',
    'cost_usd',
    'costs.input',
    'costs.output',
    'costs.cache_read',
    'costs.cache_write',
  ],
  'model.retried': ['provider', 'model', 'cost_usd', 'error.code'],
  'model.failed': ['provider', 'model', 'tool', 'cost_usd', 'error.code'],
  'model.deferred': ['model', 'error.code'],
  'model.resumed': ['model'],
  'model.fell_back': ['from', 'to', 'error.code'],
  'file.stored': ['provider'],
  'file.failed': ['provider', 'error.code'],
  'budget.warned': ['key'],
  'budget.exceeded': ['key'],
  'intent.rejected': ['tool_use_id'],
  'tool.requested': ['tool_use_id', 'allowed_by'],
  'tool.failed': ['error.code'],
  'tool.denied': ['error.code'],
  'tool.unknown': ['error.code'],
  'tool.resolved': ['error.code'],
  'task.failed': ['error.code'],
  'handoff.rejected': ['error.code'],
  'policy.decided': ['stage', 'policy.name'],
  'approval.requested': ['tool', 'digest', 'policy.name'],
  'approval.granted': ['digest', 'policy.name'],
  'node.entered': ['node', 'from'],
  'node.completed': ['node', 'next'],
};

const KEPT: ReadonlySet<string> = new Set(
  Object.entries(KEPT_TEXTS).flatMap(([type, paths]) => paths.map((path) => `${type}:${path}`)),
);

/** Fields removed entirely. */
const DROPPED: ReadonlySet<string> = new Set(['turn.started:input.attachments', 'message.queued:input.attachments']);

/** Erases the content of a stored event. Returns its payload and schema version. For unknown types nothing is kept. */
export function eraseEvent(event: Pick<StoredEvent, 'type' | 'schema_version' | 'payload'>): {
  payload: unknown;
  schema_version: number;
} {
  if (!Object.hasOwn(EVENTS, event.type)) return { payload: {}, schema_version: event.schema_version };
  const { payload, version } = EVENTS[event.type as EventType];
  return { payload: withoutContent(payload, currentPayload(event), `${event.type}:`), schema_version: version };
}

/** `path`: the type, a colon, and the field names to the value. Returns undefined if the field must be removed. */
function withoutContent(schema: unknown, value: unknown, path: string): unknown {
  if (value === undefined || value === null || DROPPED.has(path)) return value === null ? null : undefined;
  if (schema instanceof z.ZodOptional) return isText(schema.unwrap(), path) ? undefined : inner(schema, value, path);
  if (schema instanceof z.ZodNullable) return isText(schema.unwrap(), path) ? null : inner(schema, value, path);
  if (schema instanceof z.ZodDefault) return inner(schema, value, path);
  if (schema instanceof z.ZodObject && typeof value === 'object') return ofObject(schema, value, path);
  if (schema instanceof z.ZodArray && Array.isArray(value)) {
    return value.map((item) => withoutContent(schema.element, item, path));
  }
  if (schema instanceof z.ZodUnion) {
    const meant = schema.options.find((option) => z.safeParse(option, value).success);
    return meant && withoutContent(meant, value, path);
  }
  if (schema instanceof z.ZodRecord) return {};
  if (isText(schema, path)) return '';
  return isPlain(schema) ? value : null;
}

function inner(schema: { unwrap(): unknown }, value: unknown, path: string): unknown {
  return withoutContent(schema.unwrap(), value, path);
}

function ofObject(schema: z.ZodObject, value: object, path: string): Record<string, unknown> {
  const given = new Map(Object.entries(value));
  const left = Object.entries(schema.shape).map(([key, field]): [string, unknown] => {
    return [key, withoutContent(field, given.get(key), path.endsWith(':') ? path + key : `${path}.${key}`)];
  });
  return Object.fromEntries(left.filter(([, item]) => item !== undefined));
}

/** Whether a text field has no fixed format. */
function isText(schema: unknown, path: string): boolean {
  return schema instanceof z.ZodString && !KEPT.has(path);
}

/** Whether values of this schema cannot contain what somebody has written. Texts get here only if they are kept. */
function isPlain(schema: unknown): boolean {
  return [z.ZodString, z.ZodStringFormat, z.ZodNumber, z.ZodBoolean, z.ZodEnum, z.ZodLiteral, z.ZodNull].some(
    (kind) => schema instanceof kind,
  );
}
