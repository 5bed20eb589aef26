/** Runs and turns in the API's form: schemas of answers, and their presenters. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { textOf } from '../../core/content.ts';
import { RUN_KINDS, RUN_STATUSES } from '../../core/events.ts';
import { userMetadata } from '../../core/user-metadata.ts';
import { shownMoney } from '../../core/money.ts';
import { MESSAGE_ORIGINS } from '../../core/origin.ts';
import { dataOf } from '../../core/output-format.ts';
import { cancelledError } from '../../core/projections/turns.ts';
import { hasScope } from '../../core/scopes.ts';
import { presentWaiting, presentWaits, waitingFor } from './waiting.ts';
import { callBatch, presentCallBatch } from './call-batch-schema.ts';
import { modelCall, presentModelCall } from './model-call-schema.ts';
import type { ModelCallRow, CallBatchRow, RunView, ToolCallRow, TurnRow } from '../../modules/runs/read-runs.ts';

const data = z.unknown().optional().describe('The value of an answer that had to fit a schema.');
const said = z.object({ message: z.string(), data });

/** A turn's outcome: its answer, or what had been said and why there is none. */
const outcome = said.extend({
  status: z.enum(['complete', 'failed', 'cancelled']),
  error: z.object({ code: z.string(), message: z.string() }).optional(),
});

const usage = z.object({ tokens_in: z.int(), tokens_out: z.int(), cost_usd: z.number().nullable() });
const problem = z.object({ code: z.string(), message: z.string() });
const when = z.iso.datetime();

export const createdRun = z
  .object({ id: z.uuid(), run_id: z.uuid(), thread_id: z.uuid(), status: z.string(), turn_id: z.uuid().optional() })
  .meta({ id: 'CreatedRun' });

export const run = z
  .object({
    id: z.uuid(),
    run_id: z.uuid(),
    agent_id: z.uuid(),
    agent_version: z.string(),
    thread_id: z.uuid(),
    workspace_id: z.uuid(),
    status: z.enum(RUN_STATUSES),
    waiting_for: waitingFor.optional(),
    waits: z.array(waitingFor).optional(),
    suspended_by: z.enum(['tenant', 'agent']).optional().describe('What keeps it from going on, until that is lifted.'),
    stop_reason: z.string().nullable(),
    output: outcome.optional().describe('What has come of its last turn that has ended.'),
    error: problem.optional(),
    usage,
    steps: z.int(),
    turns: z.int(),
    keep_open: z.boolean(),
    metadata: userMetadata.optional(),
    last_seq: z.int(),
    kind: z.enum(RUN_KINDS),
    parent_run_id: z.uuid().nullable(),
    root_run_id: z.uuid().nullable(),
    parent_task_id: z.uuid().nullable(),
    depth: z.int(),
    forked_from_run_id: z.uuid().nullable(),
    forked_at_seq: z.int().nullable(),
    retried_from: z.uuid().nullable(),
    created_at: when,
    started_at: when.nullable(),
    completed_at: when.nullable(),
    erased_at: when.optional().describe('Since when nothing of its content is left.'),
  })
  .meta({ id: 'Run' });

const toolCall = z
  .object({
    id: z.uuid(),
    tool_call_id: z.uuid(),
    tool_use_id: z.string(),
    tool: z.string(),
    input: z.record(z.string(), z.unknown()),
    step: z.int(),
    status: z.string(),
    attempt: z.int(),
    recorded_from: z.uuid().nullable(),
    origin: z
      .enum(MESSAGE_ORIGINS)
      .nullable()
      .describe(
        'Who says what it is answered with: its tool, a person (`user`), the agent that it was delegated to (`model`), or Drover in their place.',
      ),
    trust: z
      .enum(['trusted', 'untrusted'])
      .nullable()
      .describe('Whether somebody vouches for what it is answered with.'),
    tainted_by: z.array(z.int()).describe('Events that had brought untrusted content when it was asked for.'),
    error: problem.nullable(),
    latency_ms: z.int().nullable(),
  })
  .meta({ id: 'ToolCall' });

const output = z.object({
  message: z.string(),
  data,
  tool_calls: z.array(toolCall).nullable(),
  status: z.enum(['running', 'complete', 'awaiting_tool', 'awaiting_human', 'failed', 'cancelled']),
  error: problem.optional(),
});

export const turnAnswer = z
  .object({
    turn_id: z.uuid(),
    output,
    usage,
    checkpoint_id: z.uuid().nullable(),
    stop_reason: z.string().nullable(),
    error: problem.optional(),
  })
  .meta({ id: 'TurnAnswer' });

export const turn = z
  .object({
    id: z.uuid(),
    turn_id: z.uuid(),
    run_id: z.uuid(),
    number: z.int(),
    status: output.shape.status,
    input: z.object({
      message: z.string(),
      attachments: z.array(z.unknown()).optional(),
      output_schema: z.record(z.string(), z.unknown()).optional(),
      replaced: z
        .int()
        .optional()
        .describe('How many characters of the request are U+FFFD, as they could not be kept.'),
      message_id: z.string().optional().describe('The `messageId` of a message that came over A2A.'),
    }),
    metadata: userMetadata.optional(),
    output: outcome
      .nullable()
      .describe('As the synchronous answer has it, without the calls; null until it has ended.'),
    stop_reason: z.string().nullable(),
    error: problem.optional(),
    usage,
    checkpoint_id: z.uuid().nullable(),
    step_count: z.int(),
    created_at: when,
    completed_at: when.nullable(),
  })
  .meta({ id: 'Turn' });

export const turnDetail = turn.extend({
  steps: z.array(
    z.object({
      step: z.int(),
      node: z.string().optional().describe("The node of the agent's graph, where it has one."),
      model_call: modelCall.nullable().describe('Null where a node of the graph has made the call.'),
      tool_calls: z.array(toolCall),
    }),
  ),
  model_calls: z.array(modelCall),
  tool_calls: z.array(toolCall),
  plans: z.array(callBatch),
});

/** `hookUrls`, by wait, are only for callers that may send to them. */
export function presentRun(row: RunView, hookUrls?: ReadonlyMap<string, string>): z.input<typeof run> {
  const waiting = presentWaiting(row, hookUrls);
  const waits = presentWaits(row, hookUrls);
  const outcomeOf = presentOutcome({ ...row, status: 'complete', error: null, ...row.cut_off });
  return {
    id: row.id,
    run_id: row.id,
    agent_id: row.agent_id,
    agent_version: row.agent_version,
    thread_id: row.thread_id,
    workspace_id: row.workspace_id,
    status: row.status,
    ...(waiting && { waiting_for: waiting }),
    ...(waits.length > 0 && { waits }),
    ...(row.suspended_by && { suspended_by: row.suspended_by }),
    stop_reason: row.stop_reason,
    ...(outcomeOf && !row.erased_at && { output: outcomeOf }),
    ...(row.error && { error: row.error }),
    usage: presentUsage(row),
    steps: row.steps,
    turns: row.turn_count,
    keep_open: row.keep_open,
    ...(row.metadata && { metadata: row.metadata }),
    last_seq: row.last_seq,
    kind: row.kind,
    parent_run_id: row.parent_run_id,
    root_run_id: row.root_run_id,
    parent_task_id: row.parent_task_id,
    depth: row.depth,
    forked_from_run_id: row.forked_from_run_id,
    forked_at_seq: row.forked_at_seq,
    retried_from: row.retried_from,
    created_at: row.created_at.toISOString(),
    started_at: row.started_at?.toISOString() ?? null,
    completed_at: row.completed_at?.toISOString() ?? null,
    ...(row.erased_at && { erased_at: row.erased_at.toISOString() }),
  };
}

/** For a caller that has changed it: without what was said, if the caller may not read that. */
export function presentRunTo(caller: Caller, row: RunView): z.input<typeof run> {
  const shown = presentRun(row);
  if (hasScope(caller.scopes, 'runs:read')) return shown;
  const { output: _output, error: _error, waiting_for: _waiting, waits: _waits, ...rest } = shown;
  return rest;
}

/** A turn's answer: its text, and its value if it had to fit a schema. */
function presentOutput(
  { structured }: Pick<TurnRow, 'structured'>,
  content: NonNullable<TurnRow['output']>,
): z.input<typeof said> {
  return { message: textOf(content), ...(structured && { data: dataOf(content, structured) }) };
}

type Outcome = Pick<TurnRow, 'status' | 'output' | 'structured' | 'stop_reason' | 'error' | 'partial'>;

/** The outcome of a turn that has ended; else null. */
function presentOutcome(row: Outcome): z.input<typeof outcome> | null {
  const { status, output: content, partial } = row;
  if (status === 'complete') return content && { ...presentOutput(row, content), status };
  if (status !== 'failed' && status !== 'cancelled') return null;
  const shown = content ? presentOutput({ structured: null }, content) : { message: partial ?? '' };
  return { ...shown, status, ...errorOf(row) };
}

/** Why a turn has no answer. */
function errorOf({
  status,
  error,
  stop_reason,
}: Pick<TurnRow, 'status' | 'error' | 'stop_reason'>): Partial<Pick<z.input<typeof turn>, 'error'>> {
  if (error) return { error };
  return status === 'cancelled' ? { error: cancelledError(stop_reason) } : {};
}

/** The answer to a synchronous turn (docs/api.md). */
export function presentAnswer(row: TurnRow, calls: readonly ToolCallRow[]): z.input<typeof turnAnswer> {
  const error = errorOf(row);
  return {
    turn_id: row.id,
    output: {
      ...(row.output ? presentOutput(row, row.output) : { message: row.partial ?? '' }),
      tool_calls: calls.length > 0 ? calls.map(presentCall) : null,
      status: row.status,
      ...error,
    },
    usage: presentUsage(row),
    checkpoint_id: row.checkpoint_id,
    stop_reason: row.stop_reason,
    ...error,
  };
}

export function presentTurn(row: TurnRow): z.input<typeof turn> {
  const { metadata, ...input } = row.input;
  return {
    id: row.id,
    turn_id: row.id,
    run_id: row.run_id,
    number: row.number,
    status: row.status,
    input,
    ...(metadata && { metadata }),
    output: presentOutcome(row),
    stop_reason: row.stop_reason,
    ...errorOf(row),
    usage: presentUsage(row),
    checkpoint_id: row.checkpoint_id,
    step_count: row.steps,
    created_at: row.created_at.toISOString(),
    completed_at: row.completed_at?.toISOString() ?? null,
  };
}

interface TurnParts {
  modelCalls: readonly ModelCallRow[];
  toolCalls: readonly ToolCallRow[];
  plans: readonly CallBatchRow[];
  nodes: readonly { node: string; step: number }[];
}

export function presentTurnDetail(row: TurnRow, parts: TurnParts): z.input<typeof turnDetail> {
  const toolCalls = parts.toolCalls.map(presentCall);
  const modelCalls = parts.modelCalls.map(presentModelCall);
  const asked = new Set(modelCalls.map(({ step }) => step));
  const byNodes = new Set(toolCalls.map(({ step }) => step).filter((step) => !asked.has(step)));
  const numbered = [
    ...modelCalls.map((model_call) => ({ step: model_call.step, model_call })),
    ...[...byNodes].map((step) => ({ step, model_call: null })),
  ];
  const steps = numbered
    .toSorted((a, b) => a.step - b.step)
    .map(({ step, model_call }) => {
      const node = parts.nodes.findLast((entered) => entered.step <= step)?.node;
      const tool_calls = toolCalls.filter((call) => call.step === step);
      return { step, ...(node !== undefined && { node }), model_call, tool_calls };
    });
  return {
    ...presentTurn(row),
    steps,
    model_calls: modelCalls,
    tool_calls: toolCalls,
    plans: parts.plans.map(presentCallBatch),
  };
}

function presentCall(row: ToolCallRow): z.input<typeof toolCall> {
  return {
    id: row.id,
    tool_call_id: row.id,
    tool_use_id: row.tool_use_id,
    tool: row.name,
    input: row.arguments,
    step: row.step,
    status: row.status,
    attempt: row.attempt,
    recorded_from: row.recorded_from,
    origin: row.origin,
    trust: row.trust,
    tainted_by: row.tainted_by ?? [],
    error: row.error && { code: row.error.code, message: row.error.message },
    latency_ms: row.latency_ms,
  };
}

function presentUsage(row: { tokens_in: number; tokens_out: number; cost_usd: string | null }): z.input<typeof usage> {
  return { tokens_in: row.tokens_in, tokens_out: row.tokens_out, cost_usd: shownMoney(row.cost_usd) };
}
