/** Bodies and answers of retry, replay, comparison, and manual checkpoints. */
import { z } from 'zod';
import { textOf } from '../../core/content.ts';
import { RUN_STATUSES } from '../../core/events.ts';
import { shownMoney } from '../../core/money.ts';
import { DIFFERENCES, type ComparedStep } from '../../modules/runs/compare-runs.ts';
import { createRunBody } from './request-schemas.ts';
import type { RunView, StepRow } from '../../modules/runs/read-runs.ts';

const text = z.strictObject({ type: z.literal('text'), text: z.string() });
const image = z.strictObject({
  type: z.literal('image'),
  source: z.union([
    z.strictObject({ type: z.literal('base64'), media_type: z.string().max(100), data: z.base64() }),
    z.strictObject({ type: z.literal('url'), url: z.url({ protocol: /^https?$/ }).max(4000) }),
  ]),
});
/** The id is enough: the rest is filled in from the conversation, or from the file. */
const file = z
  .strictObject({
    type: z.literal('file'),
    file_id: z.uuid().toLowerCase(),
    media_type: z.string().optional(),
    filename: z.string().optional(),
    size: z.int().min(0).optional(),
    pages: z.int().min(1).exactOptional(),
  })
  .transform(({ media_type = '', filename = '', size = 0, ...rest }) => ({ ...rest, media_type, filename, size }));
/** As a tool has given it, who need not keep to any form. */
const imageOfTool = image.extend({
  source: z.strictObject({ type: z.literal('base64'), media_type: z.string(), data: z.string() }),
});
const toolUseId = z.string().min(1);
const toolResult = z.strictObject({
  type: z.literal('tool_result'),
  tool_use_id: toolUseId,
  content: z.union([z.string(), z.array(z.discriminatedUnion('type', [text, imageOfTool, file]))]),
  is_error: z.boolean().exactOptional(),
});
/** As a model has written it. */
const toolUse = z.strictObject({
  type: z.literal('tool_use'),
  id: toolUseId,
  name: z.string(),
  input: z.record(z.string(), z.unknown()),
});
const cited = text.extend({ citations: z.array(z.unknown()).exactOptional() });
/** The provider's own; `takeGiven` lets pass those of the run alone. */
const ofProvider = z.looseObject({
  type: z.union([
    z.enum(['server_tool_use', 'mcp_tool_use', 'container_upload', 'compaction']),
    z.templateLiteral([z.string(), '_tool_result']),
  ]),
});
const thinking = z.strictObject({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() });
const redacted = z.strictObject({ type: z.literal('redacted_thinking'), data: z.string() });

const userBlock = z.discriminatedUnion('type', [text, image, file, toolResult]);
const assistantBlock = z.union([z.discriminatedUnion('type', [cited, thinking, redacted, toolUse]), ofProvider]);

/** Blocks, or just a text, as is common. */
function said<T extends z.ZodType>(blocks: T) {
  const alone = z
    .string()
    .min(1)
    .transform((words) => [{ type: 'text' as const, text: words }]);
  return z.union([blocks, alone]);
}

/** A message in a checkpoint's state. */
const message = z
  .discriminatedUnion('role', [
    z.strictObject({ role: z.literal('user'), content: said(z.array(userBlock).min(1)) }),
    // A model's answer may be empty.
    z.strictObject({ role: z.literal('assistant'), content: said(z.array(assistantBlock)) }),
  ])
  .meta({ id: 'StateMessage' });

export const replayBody = z.strictObject({
  checkpoint_id: z
    // Without `abort` zod tells the fault of the id alone, not the words of the union.
    .union([z.uuid({ abort: true }).toLowerCase(), z.literal('start')], 'must be a UUID, or start')
    .describe("A checkpoint of the run, or `start`: before the run's first turn."),
  modified_state: z
    .strictObject({
      messages: z.array(message).max(10_000).optional(),
      custom: z.record(z.string(), z.unknown()).optional(),
      iteration: z.int().min(0).max(1_000_000).optional(),
      current_node: z.string().optional(),
      pending_sends: z.array(z.unknown()).optional(),
    })
    .describe('Replaces whole channels of the state.')
    .nullish(),
  config: createRunBody.shape.config,
  mode: z.enum(['live', 'recorded']).optional(),
  rerun_effects: z.boolean().optional().describe('Needs the scope `approvals:write`.'),
});

const startedRun = z.object({
  id: z.uuid(),
  run_id: z.uuid(),
  new_run_id: z.uuid(),
  thread_id: z.uuid(),
  turn_id: z.uuid().optional(),
  status: z.enum(['running', 'awaiting_human']),
});

export const retriedRun = startedRun.extend({ retried_from: z.uuid() }).meta({ id: 'RetriedRun' });

export const replayedRun = startedRun
  .extend({
    forked_from_run_id: z.uuid(),
    effects: z.array(z.object({ tool_call_id: z.uuid(), tool: z.string(), seq: z.int() })),
  })
  .meta({ id: 'ReplayedRun' });

const comparedRun = z.object({
  run_id: z.uuid(),
  agent_version: z.string(),
  status: z.enum(RUN_STATUSES),
  stop_reason: z.string().nullable(),
  message: z.string().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  steps: z.int(),
  tool_calls: z.int(),
  tokens_in: z.int(),
  tokens_out: z.int(),
  cost_usd: z.number().nullable(),
  latency_ms: z.int(),
});

const comparedStep = z.object({
  provider: z.string(),
  model: z.string(),
  recorded: z.boolean(),
  stop_reason: z.string(),
  message: z.string(),
  tool_calls: z.array(
    z.object({
      tool: z.string(),
      arguments: z.record(z.string(), z.unknown()),
      status: z.string(),
      recorded: z.boolean(),
      latency_ms: z.int().nullable(),
    }),
  ),
  tokens_in: z.int(),
  tokens_out: z.int(),
  cost_usd: z.number().nullable(),
  latency_ms: z.int(),
});

const difference = z.enum(DIFFERENCES);

export const comparison = z
  .object({
    first_difference: z.object({ step: z.int(), what: difference }).nullable(),
    steps: z.array(
      z.object({
        step: z.int(),
        same: z.boolean(),
        differs: z.array(difference),
        a: comparedStep.nullable(),
        b: comparedStep.nullable(),
      }),
    ),
    a: comparedRun,
    b: comparedRun,
  })
  .meta({ id: 'RunComparison' });

export function presentComparison(a: RunView, b: RunView, steps: ComparedStep[]): z.input<typeof comparison> {
  const first = steps.find(({ differs }) => differs.length > 0);
  const [what] = first?.differs ?? [];
  const sideOf = (side: 'a' | 'b') => steps.flatMap((each) => each[side] ?? []);
  return {
    first_difference: first && what ? { step: first.step, what } : null,
    steps: steps.map((each) => ({
      step: each.step,
      same: each.differs.length === 0,
      differs: each.differs,
      a: each.a && presentStep(each.a),
      b: each.b && presentStep(each.b),
    })),
    a: presentSide(a, sideOf('a')),
    b: presentSide(b, sideOf('b')),
  };
}

/** Tokens and cost are the run's own; latency is that of its steps, including those before a fork. */
function presentSide(run: RunView, steps: StepRow[]): z.input<typeof comparedRun> {
  return {
    run_id: run.id,
    agent_version: run.agent_version,
    status: run.status,
    stop_reason: run.stop_reason,
    message: run.output && textOf(run.output),
    error: run.error,
    steps: steps.length,
    tool_calls: steps.reduce((sum, step) => sum + step.calls.length, 0),
    tokens_in: run.tokens_in,
    tokens_out: run.tokens_out,
    cost_usd: shownMoney(run.cost_usd),
    latency_ms: steps.reduce((sum, step) => sum + latencyOf(step), 0),
  };
}

/** The latency of a step, whose calls run in parallel. */
function latencyOf(step: StepRow): number {
  return step.latency_ms + Math.max(0, ...step.calls.map((call) => call.latency_ms ?? 0));
}

function presentStep(row: StepRow): z.input<typeof comparedStep> {
  const { step: _step, content, calls, cost_usd, ...rest } = row;
  return {
    ...rest,
    cost_usd: shownMoney(cost_usd),
    message: textOf(content ?? []),
    tool_calls: calls.map(({ output_md5: _output, is_error: _error, ...call }) => call),
  };
}
