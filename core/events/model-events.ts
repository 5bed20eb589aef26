/** Events of model calls, and of the budgets that pay for them. */
import { z } from 'zod';
import { calibration } from '../calibration.ts';
import { INTENT_KINDS } from '../intents.ts';
import { compaction, STRATEGIES } from '../compaction.ts';
import { CUT_REASONS } from '../context.ts';
import { refusedFiles } from '../refused-files.ts';
import { REQUEST_PARTS, STOP_REASONS } from '../model.ts';
import { count, defineEvent, money, problem, replaced, uuid } from './event.ts';

const usage = z.object({
  input: count,
  output: count,
  thinking: count,
  cache_read: count,
  cache_write_5m: count,
  cache_write_1h: count,
  /** Prompt tokens used by the provider's own compaction. */
  compaction: count.optional(),
  /** The provider has not reported everything. */
  estimated: z.boolean().optional(),
});

/** Usage of an answer until it broke off: it is paid for. */
const brokenOff = { provider: z.string().optional(), usage: usage.optional(), cost_usd: money.optional() };

/** For a request that was refused for its length: how the model's token estimates are corrected from here on. */
const tooLong = { calibration: calibration.optional() };

const spending = z.object({ tokens: count, cost_usd: z.number(), steps: count });

/** A budget at that time: limits, spent, and reserved for calls under way. */
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

export const MODEL_EVENTS = {
  'model.called': defineEvent(4, {
    provider: z.string(),
    model: z.string(),
    length: count,
    /** Tokens of the conversation; `fixed_tokens`: of system prompt, tools and memories. */
    estimated_tokens: count,
    fixed_tokens: count.optional(),
    /** Drover's own calls force a tool. They are no steps of the run. */
    tool_choice: z.union([z.enum(['auto', 'none']), z.object({ tool: z.string() })]),
    /** Indexes of the worked examples shown to the model, if its agent has more. */
    examples: z.array(count).optional(),
    /** Limits of output and thinking, in tokens, and the number of tools offered, including the provider's own. */
    max_tokens: count.optional(),
    thinking_tokens: count.optional(),
    tools_count: count.optional(),
  }),
  'model.responded': defineEvent(4, {
    provider: z.string(),
    model: z.string(),
    stop_reason: z.enum(STOP_REASONS),
    ordinal: count,
    tool_calls: count,
    /** What it proposes: calls, a batch of them, or the end; empty if it pauses. */
    intents: z.array(z.enum(INTENT_KINDS)).optional(),
    /** It contains neither text nor a call, and is no answer: see `intent.rejected`. */
    empty: z.boolean().optional(),
    usage,
    cost_usd: money,
    /** Breakdown of `cost_usd`, if the price is known and not zero. */
    costs: z
      .object({ input: z.string(), output: z.string(), cache_read: z.string(), cache_write: z.string() })
      .optional(),
    /** The container in which the provider's code ran: the next request names it. */
    container_id: z.string().optional(),
    /** It contains output of the provider's own tools. */
    untrusted: z.literal(true).optional(),
    /** For the model's output. */
    replaced,
    /** The provider's higher rates for long prompts applied. */
    long_context: z.boolean().optional(),
    /** The tool that Drover forced in an own call. The answer is in no message; `ordinal` is the conversation's length. */
    tool: z.string().optional(),
    latency_ms: count,
    /** In a replay: the answer comes from the record, where its tokens were spent. */
    recorded: z.boolean().optional(),
    /** In a replay: corrections of token estimates that the record's step had before its answer. */
    calibration: calibration.optional(),
    /** In a recorded replay: how this request differs from the record's. From here on, answers are live. */
    differs: z.array(z.enum(REQUEST_PARTS)).optional(),
  }),
  'model.retried': defineEvent(2, {
    model: z.string(),
    attempt: count,
    error: problem,
    wait_ms: count,
    ...brokenOff,
    ...tooLong,
  }),
  'model.failed': defineEvent(3, {
    model: z.string(),
    ...brokenOff,
    ...tooLong,
    /** The tool that Drover forced in an own call. */
    tool: z.string().optional(),
    error: problem,
    /** It was refused for an image or a file, and so is the turn: from here on, these messages are sent without any. */
    refused_files: refusedFiles.optional(),
    /** Output so far. Comes after the turn's end if the turn was cancelled meanwhile. */
    partial: z.string().optional(),
  }),
  /** No model of the run answers: it waits for its provider, dormant, and asks again later. */
  'model.deferred': defineEvent(1, {
    /** The last model asked. */
    model: z.string(),
    error: problem,
    /** Start of the wait, time of the next request, and when the run gives up. */
    since: z.iso.datetime(),
    next_at: z.iso.datetime(),
    until: z.iso.datetime(),
    /** Other runs got answers meanwhile: this run now asks on its own, and no other waits for its result. */
    alone: z.boolean().optional(),
  }),
  'model.resumed': defineEvent(1, { model: z.string(), waited_ms: count }),
  'model.fell_back': defineEvent(1, { from: z.string(), to: z.string(), error: problem }),

  /** What is left out of the conversation from here on, and why. Written once for each change, not for each call. */
  'context.transformed': defineEvent(1, {
    reason: z.enum(CUT_REASONS),
    /** The first message sent. */
    first_kept_ordinal: count,
    /** Estimated. */
    dropped_messages: count,
    dropped_tokens: count,
    /** Token budget of the conversation. */
    budget_tokens: count,
  }),

  /** What replaces the beginning of the conversation from here on. The messages themselves stay stored. */
  'context.compacted': defineEvent(1, {
    strategy: z.enum(STRATEGIES),
    ...compaction.shape,
    /** Estimated tokens of the sent conversation. */
    tokens_before: count,
    tokens_after: count,
    budget_tokens: count,
    /** Tokens of the messages before the first one kept. */
    dropped_tokens: count,
  }),

  /** A soft limit was passed; `approval_id`: a person is asked whether to go on. */
  'budget.warned': defineEvent(1, { ...budgetStanding, approval_id: uuid.optional() }),
  /** There is no room for another model call: the turn stops with what it has. */
  'budget.exceeded': defineEvent(1, budgetStanding),
} as const;
