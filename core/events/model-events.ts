/** Events of model calls, and of the budgets that they are paid from. */
import { z } from 'zod';
import { INTENT_KINDS } from '../intents.ts';
import { compaction, STRATEGIES } from '../compaction.ts';
import { CUT_REASONS } from '../context.ts';
import { REQUEST_PARTS, STOP_REASONS } from '../model.ts';
import { count, defineEvent, money, problem, replaced, uuid } from './event.ts';

const usage = z.object({
  input: count,
  output: count,
  thinking: count,
  cache_read: count,
  cache_write_5m: count,
  cache_write_1h: count,
  /** Of the prompt's tokens those of the provider's own compaction. */
  compaction: count.optional(),
  /** The provider has not reported all of it. */
  estimated: z.boolean().optional(),
});

/** What a provider had counted of an answer that broke off: it is paid for. */
const brokenOff = { provider: z.string().optional(), usage: usage.optional(), cost_usd: money.optional() };

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

export const MODEL_EVENTS = {
  'model.called': defineEvent(4, {
    provider: z.string(),
    model: z.string(),
    length: count,
    /** Of the conversation that is sent; and of what stands beside it: system prompt, tools, memories. */
    estimated_tokens: count,
    fixed_tokens: count.optional(),
    /** A tool is forced where Drover asks for itself: such a call is no step of the run. */
    tool_choice: z.union([z.enum(['auto', 'none']), z.object({ tool: z.string() })]),
    /** Places of the worked examples that the model is shown, where its agent has more of them. */
    examples: z.array(count).optional(),
    /** What the request lets the model say and think, in tokens, and how many tools it offers, the provider's own included. */
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
    /** What it proposes: calls, or a batch of them, or the end; nothing where it pauses. */
    intents: z.array(z.enum(INTENT_KINDS)).optional(),
    /** It holds neither text nor a call, and is no answer: `intent.rejected` says more. */
    empty: z.boolean().optional(),
    usage,
    cost_usd: money,
    /** What `cost_usd` is made of, where the price is known and the model costs anything. */
    costs: z
      .object({ input: z.string(), output: z.string(), cache_read: z.string(), cache_write: z.string() })
      .optional(),
    /** The container that the provider's code has run in: the next request names it. */
    container_id: z.string().optional(),
    /** It holds what tools of the provider have answered. */
    untrusted: z.literal(true).optional(),
    /** Of what it has said. */
    replaced,
    /** The prompt was long enough for the provider's higher rates. */
    long_context: z.boolean().optional(),
    /** The tool that Drover forced for itself; the answer is in no message, and `ordinal` is the conversation's length. */
    tool: z.string().optional(),
    latency_ms: count,
    /** In a replay: the answer is the record's; its tokens were spent there. */
    recorded: z.boolean().optional(),
    /** In a recorded replay: what made this request another one than the record's. What follows is live. */
    differs: z.array(z.enum(REQUEST_PARTS)).optional(),
  }),
  'model.retried': defineEvent(2, {
    model: z.string(),
    attempt: count,
    error: problem,
    wait_ms: count,
    ...brokenOff,
  }),
  'model.failed': defineEvent(3, {
    model: z.string(),
    ...brokenOff,
    /** The tool that Drover forced for itself. */
    tool: z.string().optional(),
    error: problem,
    /** What it had said by then. After the turn's end where the turn was cancelled meanwhile. */
    partial: z.string().optional(),
  }),
  /** No model of the run answers: it waits for its provider, dormant, and asks again when its time has come. */
  'model.deferred': defineEvent(1, {
    /** The model that was asked last. */
    model: z.string(),
    error: problem,
    /** Since when the run waits, when somebody asks next, and when the run gives up. */
    since: z.iso.datetime(),
    next_at: z.iso.datetime(),
    until: z.iso.datetime(),
    /** Others were answered meanwhile: from now on the run asks by itself, and nobody waits for what comes of it. */
    alone: z.boolean().optional(),
  }),
  'model.resumed': defineEvent(1, { model: z.string(), waited_ms: count }),
  'model.fell_back': defineEvent(1, { from: z.string(), to: z.string(), error: problem }),

  /** What is left out of the conversation from here on, and why. Once for each change, not for each call. */
  'context.transformed': defineEvent(1, {
    reason: z.enum(CUT_REASONS),
    /** The first message that is sent. */
    first_kept_ordinal: count,
    /** Estimated. */
    dropped_messages: count,
    dropped_tokens: count,
    /** Tokens that the conversation may have. */
    budget_tokens: count,
  }),

  /** What takes the place of the beginning of the conversation from here on. The messages themselves stay. */
  'context.compacted': defineEvent(1, {
    strategy: z.enum(STRATEGIES),
    ...compaction.shape,
    /** Estimated, of what is sent. */
    tokens_before: count,
    tokens_after: count,
    budget_tokens: count,
    /** Of the messages before the first one that is kept. */
    dropped_tokens: count,
  }),

  /** A soft limit was passed; with `approval_id` a person is asked whether to go on. */
  'budget.warned': defineEvent(1, { ...budgetStanding, approval_id: uuid.optional() }),
  /** No room is left for another model call: the turn stops with what it has. */
  'budget.exceeded': defineEvent(1, budgetStanding),
} as const;
