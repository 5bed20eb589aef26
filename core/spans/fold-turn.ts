/** The fold of a turn's log: its spans so far, and what is open. */
import type { EventType, RunEvent } from '../events.ts';
import { addUsage, NO_TOKENS, type TokenUsage } from '../model.ts';
import { spanIdOf } from '../trace-context.ts';
import { attributesOfCall, attributesOfModelCall, type AskedModel, type SpanAttributes } from './attributes.ts';

/** A span. Times are in ms since 1970. */
export interface Span {
  id: string;
  name: string;
  kind: 'client' | 'internal';
  startMs: number;
  endMs: number;
  attributes: SpanAttributes;
  /** A low-cardinality code: `error.type`. */
  error?: string | undefined;
  /** What happened within it. */
  notes?: readonly Note[] | undefined;
}

interface Note {
  name: string;
  atMs: number;
  attributes: SpanAttributes;
}

interface OpenCall {
  id: string;
  name: string;
  toolUseId: string;
  sinceMs: number;
  startedMs?: number;
  attempt?: number;
  /** Why its outcome is unknown, while it is. */
  unknown?: string;
}

interface OpenApproval {
  tool: string;
  callId: string | undefined;
  sinceMs: number;
}

/** How the turn began, without what was said. */
export interface Started {
  turnId: string;
  number: number;
  traceparent: string | undefined;
  atMs: number;
}

/**
 * The fold: what is open, and the spans that are not told yet, each with the position of the event that has finished it and
 * without the attributes that all spans of the turn have. It does not grow with the turn.
 */
export interface Reading {
  runId: string;
  /** The position up to which the turn is read. */
  seq: number;
  /** That of the last event read that tells what is finished; 0: none. */
  told: number;
  started: Started | undefined;
  ended: { atMs: number; error?: string } | undefined;
  asked: (AskedModel & { sinceMs: number; notes: Note[] }) | undefined;
  calls: Map<string, OpenCall>;
  approvals: Map<string, OpenApproval>;
  spent: TokenUsage | undefined;
  spans: { seq: number; span: Span }[];
}

/** Nothing read yet. */
export function beginReading(runId: string): Reading {
  return {
    runId,
    seq: 0,
    told: 0,
    started: undefined,
    ended: undefined,
    asked: undefined,
    calls: new Map(),
    approvals: new Map(),
    spent: undefined,
    spans: [],
  };
}

/** Takes the turn's next event of `TRACED_TYPES` in. */
export function read(reading: Reading, event: RunEvent): void {
  // After the end of its turn nothing of it is told.
  if (reading.ended) return;
  switch (event.type) {
    case 'turn.started':
      return begin(reading, event);
    case 'turn.completed':
      return endTurn(reading, event);
    case 'turn.failed':
      return endTurn(reading, event, event.payload.error.code);
    case 'turn.interrupted':
      return endTurn(reading, event, 'interrupted');
    case 'model.called':
    case 'model.responded':
    case 'model.retried':
    case 'model.failed':
    case 'model.fell_back':
    case 'model.resumed':
      return readModelCall(reading, event);
    case 'approval.requested':
    case 'approval.granted':
    case 'approval.denied':
    case 'approval.expired':
    case 'approval.settled':
      return readApproval(reading, event);
    default:
      readCall(reading, event);
  }
}

function begin(reading: Reading, event: Of<'turn.started'>): void {
  const { turn_id: turnId, payload } = event;
  if (turnId === undefined) return;
  reading.started = { turnId, number: payload.number, traceparent: payload.traceparent, atMs: msOf(event) };
}

type Of<T extends EventType> = Extract<RunEvent, { type: T }>;
type ModelEvent = Of<
  'model.called' | 'model.responded' | 'model.retried' | 'model.failed' | 'model.fell_back' | 'model.resumed'
>;

function readModelCall(reading: Reading, event: ModelEvent): void {
  const sinceMs = msOf(event);
  switch (event.type) {
    case 'model.called': {
      const { provider, model, max_tokens: maxTokens } = event.payload;
      reading.asked = { provider, model, maxTokens, sinceMs, notes: [] };
      return;
    }
    case 'model.fell_back':
      reading.asked = { model: event.payload.to, sinceMs, notes: [] };
      return;
    case 'model.resumed':
      reading.asked = { model: event.payload.model, sinceMs, notes: [] };
      return;
    case 'model.retried': {
      const { error, attempt } = event.payload;
      const attributes = { 'error.type': error.code, 'drover.model_call.attempt': attempt };
      reading.asked?.notes.push({ name: 'drover.model.retried', atMs: sinceMs, attributes });
      return;
    }
    case 'model.responded':
    case 'model.failed':
      endModelCall(reading, event);
  }
}

function endModelCall(reading: Reading, event: Of<'model.responded' | 'model.failed'>): void {
  const { asked } = reading;
  reading.asked = undefined;
  // Nobody was asked: a replay took the answer from the record.
  if (event.type === 'model.responded' && event.payload.recorded) return;
  const endMs = msOf(event);
  const tookMs = event.type === 'model.responded' ? event.payload.latency_ms : Infinity;
  // An announced call may have waited for a process; its own time says when it was made.
  const startMs = Math.max(endMs - tookMs, asked?.sinceMs ?? (tookMs === Infinity ? endMs : 0));
  const { usage } = event.payload;
  if (usage) reading.spent = addUsage(reading.spent ?? NO_TOKENS, usage);
  finish(reading, event, {
    id: spanIdOf(`${reading.runId} ${event.seq}`),
    name: nameOf('chat', asked?.model ?? event.payload.model),
    kind: 'client',
    startMs,
    attributes: attributesOfModelCall(event, asked),
    error: event.type === 'model.failed' ? event.payload.error.code : undefined,
    notes: asked?.notes,
  });
}

function readCall(reading: Reading, event: RunEvent): void {
  const { calls } = reading;
  const atMs = msOf(event);
  if (event.type === 'tool.requested') {
    const { tool_call_id: id, name, tool_use_id: toolUseId, recorded_from: record } = event.payload;
    if (record === undefined) calls.set(id, { id, name, toolUseId, sinceMs: atMs });
    return;
  }
  const call = 'tool_call_id' in event.payload ? calls.get(event.payload.tool_call_id ?? '') : undefined;
  if (!call) return;
  switch (event.type) {
    case 'tool.started':
      call.startedMs ??= atMs;
      call.attempt = event.payload.attempt;
      delete call.unknown;
      return;
    case 'tool.unknown':
      call.unknown = event.payload.error.code;
      return;
    case 'tool.succeeded':
      return endCall(reading, call, { event });
    case 'tool.failed':
    case 'tool.denied':
      return endCall(reading, call, { event, error: event.payload.error.code });
    case 'tool.resolved': {
      const { outcome, error } = event.payload;
      return endCall(reading, call, { event, error: outcome === 'succeeded' ? undefined : (error?.code ?? outcome) });
    }
    default:
  }
}

/** A call begins with its first attempt, or, where others than a worker answer it, when it is asked for. */
function endCall(
  reading: Reading,
  call: OpenCall,
  { event, error }: { event: RunEvent; error?: string | undefined },
): void {
  reading.calls.delete(call.id);
  // A model has made the name up.
  const name = error === 'unknown_tool' ? null : call.name;
  finish(reading, event, {
    id: spanIdOf(call.id),
    name: nameOf('execute_tool', name),
    kind: 'internal',
    startMs: call.startedMs ?? call.sinceMs,
    attributes: attributesOfCall({ ...call, name, attempt: call.attempt }),
    error,
  });
}

type ApprovalEvent = Of<
  'approval.requested' | 'approval.granted' | 'approval.denied' | 'approval.expired' | 'approval.settled'
>;

function readApproval(reading: Reading, event: ApprovalEvent): void {
  const { approval_id: id, tool_call_id: callId } = event.payload;
  if (event.type === 'approval.requested') {
    reading.approvals.set(id, { tool: event.payload.tool, callId, sinceMs: msOf(event) });
    return;
  }
  const asked = reading.approvals.get(id);
  if (!asked) return;
  reading.approvals.delete(id);
  finish(reading, event, {
    id: spanIdOf(id),
    name: nameOf('await_approval', asked.tool),
    kind: 'internal',
    startMs: asked.sinceMs,
    attributes: {
      'drover.approval.id': id,
      'drover.approval.outcome': event.type.slice('approval.'.length),
      'drover.tool_call.id': asked.callId,
    },
  });
}

/** What is open then ends with the turn: nobody waits for it any more. */
function endTurn(reading: Reading, event: RunEvent, error?: string): void {
  for (const call of reading.calls.values())
    endCall(reading, call, { event, error: call.unknown ?? error ?? 'interrupted' });
  reading.ended = { atMs: msOf(event), ...(error !== undefined && { error }) };
}

function finish(reading: Reading, event: RunEvent, span: Omit<Span, 'endMs'>): void {
  reading.spans.push({ seq: event.seq, span: { ...span, endMs: msOf(event) } });
}

/** The name of a span, by the conventions. */
export const nameOf = (operation: string, of: string | null) => (of === null ? operation : `${operation} ${of}`);

const msOf = ({ occurred_at: at }: Pick<RunEvent, 'occurred_at'>) => Date.parse(at);
