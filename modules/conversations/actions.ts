/** Converts events to actions of a run's log. */
import { textOf } from '../../core/content.ts';
import { NO_BUDGET } from '../../core/decide.ts';
import { OUT_OF_BUDGET } from '../../core/events.ts';
import { shownMoney } from '../../core/money.ts';
import { stopReasonOf } from '../../core/projections/runs.ts';
import { STOPPED } from '../../core/projections/turns.ts';
import type { LoggedEvent } from '../../db/events.ts';
import type { SteppedTurn } from '../../db/turn-contents.ts';

export const ACTION_TYPES = [
  'run_started',
  'run_completed',
  'run_failed',
  'max_steps_reached',
  'memory_retrieval',
  'memory_update',
  'compaction',
  'context_transformation',
  'api_call_started',
  'api_response_received',
  'api_retry',
  'api_error',
  'tool_execution',
  'tool_error',
  'final_answer_validation',
  'final_answer_validation_failed',
  'file_generated',
  'file_downloaded',
  'file_stored',
  'file_error',
  'final_summary_generation',
  'error',
] as const;
export type ActionType = (typeof ACTION_TYPES)[number];

export interface Action {
  type: ActionType;
  data: Record<string, unknown>;
  /** Set if the action belongs to another step or time than its event. */
  step?: number;
  at?: Date;
  durationMs?: number;
  messagesCount?: number;
  estimatedTokens?: number;
}

type Payload = Record<string, unknown>;
type Problem = Parameters<typeof stopReasonOf>[0];

/** Actions whose data is the event's payload. */
const PLAIN: Readonly<Record<string, ActionType>> = {
  'model.retried': 'api_retry',
  'model.fell_back': 'api_retry',
  'model.resumed': 'api_retry',
  'model.failed': 'api_error',
  'model.deferred': 'api_error',
  'run.max_steps_reached': 'max_steps_reached',
  'answer.validated': 'final_answer_validation',
  'answer.rejected': 'final_answer_validation_failed',
  'file.failed': 'file_error',
  'checkpoint.corrupt': 'error',
};

/** The actions of an event, in order; none for most types, which the taxonomy does not have. */
export function actionsOf(event: LoggedEvent, turn: SteppedTurn | undefined): Action[] {
  const payload = event.payload as Payload;
  switch (event.type) {
    case 'turn.started': {
      const input = payload['input'] as { message: string };
      return [{ type: 'run_started', data: { user_message: input.message, turn_number: payload['number'] } }];
    }
    case 'model.called':
      return [...resultsAdded(event, payload, turn), callStarted(payload)];
    case 'model.responded':
      return responded(event, payload, turn);
    case 'memory.retrieved':
      return [memoryRetrieved(payload)];
    case 'context.transformed':
      return [contextCut(payload)];
    case 'context.compacted':
      return [compacted(payload)];
    case 'reflection.completed': {
      const isFailed = payload['meets_criteria'] === false;
      return [{ type: isFailed ? 'final_answer_validation_failed' : 'final_answer_validation', data: payload }];
    }
    case 'message.dequeued':
      return payload['as'] === 'steer' ? [steered(payload)] : [];
    case 'tool.succeeded':
      return execution(event, payload, event.call?.is_error !== true);
    case 'tool.failed':
      return execution(event, payload, false);
    case 'tool.resolved':
      // The error was reported when the outcome became unknown.
      return payload['outcome'] === 'unknown' ? [] : execution(event, payload, payload['outcome'] === 'succeeded');
    case 'tool.denied':
    case 'tool.unknown':
      return [{ type: 'tool_error', data: toolData(event, payload) }];
    case 'turn.completed':
      return [...refusedCall(payload['stop_reason'], turn), completed(event, turn), ...memoryUpdated(turn)];
    case 'turn.failed':
      return failed(event, payload['error'] as Problem, turn);
    case 'turn.interrupted': {
      const stop_reason = STOPPED[payload['reason'] as keyof typeof STOPPED];
      return [{ ...ended('run_failed', event, turn), data: { stop_reason } }];
    }
    case 'file.stored':
      return stored(payload);
    default: {
      const type = PLAIN[event.type];
      return type ? [{ type, data: payload }] : [];
    }
  }
}

/** A provider's file was fetched first. */
function stored(payload: Payload): Action[] {
  const types = payload['provider'] === undefined ? [] : (['file_generated', 'file_downloaded'] as const);
  return [...types, 'file_stored' as const].map((type) => ({ type, data: payload }));
}

/** Results of the previous step have been added to the conversation. */
function resultsAdded(event: LoggedEvent, payload: Payload, turn: SteppedTurn | undefined): Action[] {
  const step = (event.step ?? 0) - 1;
  const before = turn?.steps[step];
  if (before === undefined || typeof payload['tool_choice'] === 'object') return [];
  const estimatedTokens = Number(payload['estimated_tokens']);
  // Estimated as well: what the provider counts for the answer is another measure, and may have thinking in it.
  const asked = turn?.asked[step];
  const data = {
    transformation_type: 'tool_result_added',
    messages_before_count: before + 1,
    messages_after_count: before + 2,
    ...(asked !== undefined && { tokens_before: asked }),
    tokens_after: estimatedTokens,
  };
  return [{ type: 'context_transformation', data, step, messagesCount: before + 2, estimatedTokens }];
}

function memoryRetrieved(payload: Payload): Action {
  const { length } = payload['entries'] as unknown[];
  return { type: 'memory_retrieval', data: { memories_injected: length, ...payload }, step: 0 };
}

/** What was learnt from the turn after its end. */
function memoryUpdated(turn: SteppedTurn | undefined): Action[] {
  if (!turn?.learnt) return [];
  const { finished_at: at, added, superseded, ...more } = turn.learnt;
  const counts = { memories_added: added.length, memories_superseded: superseded.length };
  return [{ type: 'memory_update', data: { ...more, ...counts, added, superseded }, at: new Date(at) }];
}

function compacted(payload: Payload): Action {
  const estimatedTokens = Number(payload['tokens_after']);
  return { type: 'compaction', data: { compaction_applied: true, ...payload }, estimatedTokens };
}

function callStarted(payload: Payload): Action {
  const { provider, model, tool_choice, length, estimated_tokens } = payload;
  const { max_tokens, thinking_tokens = 0, tools_count } = payload;
  // Missing in logs of older builds.
  const offered = max_tokens === undefined ? {} : { max_tokens, thinking_tokens, tools_count };
  return {
    type: 'api_call_started',
    data: { provider, model, tool_choice, ...offered },
    messagesCount: Number(length),
    estimatedTokens: Number(estimated_tokens),
  };
}

function responded(event: LoggedEvent, payload: Payload, turn: SteppedTurn | undefined): Action[] {
  const { provider, model, stop_reason, cost_usd, latency_ms, tool, recorded } = payload;
  const usage = payload['usage'] as Record<string, number>;
  const response: Action = {
    type: 'api_response_received',
    data: {
      provider,
      model,
      stop_reason,
      usage: {
        input_tokens: usage['input'],
        output_tokens: usage['output'],
        cache_creation_input_tokens: (usage['cache_write_5m'] ?? 0) + (usage['cache_write_1h'] ?? 0),
        cache_read_input_tokens: usage['cache_read'],
      },
      cost_usd: shownMoney(typeof cost_usd === 'string' ? cost_usd : null),
      ...(recorded === true && { recorded }),
      ...(tool === undefined ? { content: event.content ?? [] } : { tool }),
    },
    durationMs: Number(latency_ms),
  };
  const limit = turn?.max_steps_seq ?? null;
  if (limit === null || event.seq < limit || tool !== undefined) return [response];
  return [response, { type: 'final_summary_generation', data: { stop_reason, content: event.content ?? [] } }];
}

function contextCut({ reason, ...payload }: Payload): Action {
  return { type: 'context_transformation', data: { transformation_type: 'messages_left_out', reason, ...payload } };
}

function steered({ message_id, length }: Payload): Action {
  const data = { transformation_type: 'user_message_added', message_id, messages_after_count: length };
  return { type: 'context_transformation', data, messagesCount: Number(length) };
}

function execution(event: LoggedEvent, payload: Payload, success: boolean): Action[] {
  const latency = payload['latency_ms'];
  const durationMs = typeof latency === 'number' ? latency : undefined;
  const data = { ...toolData(event, payload), success, execution_time_ms: durationMs ?? null };
  const timed = durationMs === undefined ? {} : { durationMs };
  const done: Action = { type: 'tool_execution', data, ...timed };
  return success
    ? [done, ...remembered(event)]
    : [done, { type: 'tool_error', data: toolData(event, payload), ...timed }];
}

/** The built-in `remember` has added to the agent's memory during the turn. */
function remembered({ call }: LoggedEvent): Action[] {
  const output = call?.name === 'remember' ? (call.output as { id?: string; added?: boolean } | null) : null;
  if (output?.added !== true) return [];
  const data = { made_by: 'agent', memories_added: 1, memories_superseded: 0, added: [output.id], superseded: [] };
  return [{ type: 'memory_update', data }];
}

function toolData({ call }: LoggedEvent, payload: Payload): Record<string, unknown> {
  const { tool_call_id, error } = payload;
  const large = call?.is_left_out ? { output_ref: `/v1/tool-calls/${String(tool_call_id)}/output` } : {};
  return {
    tool_name: call?.name ?? null,
    tool_call_id,
    tool_use_id: call?.tool_use_id ?? null,
    input: call?.arguments ?? null,
    result: call?.output ?? null,
    ...large,
    ...(error !== undefined && { error }),
  };
}

function failed(event: LoggedEvent, error: Problem, turn: SteppedTurn | undefined): Action[] {
  const data = { stop_reason: stopReasonOf(error), error };
  return [
    ...refusedCall(error.code, turn),
    { ...ended('run_failed', event, turn), data },
    { type: 'error', data: { error } },
  ];
}

/** The model call before which the turn stopped: it is announced with its reservation, before budgets are checked. */
function refusedCall(reason: unknown, turn: SteppedTurn | undefined): Action[] {
  if (reason !== OUT_OF_BUDGET || !turn) return [];
  const step = Object.keys(turn.asked).find((asked) => !(asked in turn.answers));
  return step === undefined ? [] : [{ type: 'api_error', data: { error: NO_BUDGET }, step: Number(step) }];
}

function completed(event: LoggedEvent, turn: SteppedTurn | undefined): Action {
  const { data, ...action } = ended('run_completed', event, turn);
  const totals = turn && {
    total_steps: Object.keys(turn.answers).length,
    total_input_tokens: turn.input_tokens,
    total_output_tokens: turn.output_tokens,
    files_generated: turn.files,
  };
  return { ...action, data: { ...data, ...totals } };
}

function ended(type: ActionType, event: LoggedEvent, turn: SteppedTurn | undefined): Action {
  const payload = event.payload as Payload;
  const durationMs = turn && event.occurred_at.getTime() - turn.started_at.getTime();
  const data = { stop_reason: payload['stop_reason'], final_response: event.content ? textOf(event.content) : null };
  return { type, data, ...(durationMs !== undefined && { durationMs }) };
}
