/** Requests to models and their answers, independent of the provider. */
import type { AssistantBlock, Message } from './content.ts';
import type { WorkflowExample } from './definition.ts';
import type { ProviderOptions } from './provider-settings.ts';

/** A tool in the form that models get. */
export interface ToolSpec {
  name: string;
  description: string;
  input_schema: Record<string, unknown>;
}

export interface ModelRequest {
  /** Name at the provider, without `provider/`. */
  model: string;
  system: string;
  messages: Message[];
  tools: ToolSpec[];
  toolChoice: 'auto' | 'none' | { tool: string };
  /** Limit of output tokens. */
  maxTokens: number;
  temperature?: number | undefined;
  /** Extras for the agent's own provider; never sent to another one. */
  options?: ProviderOptions | undefined;
  /** Data for the offline planner only; other providers find the examples in `system`. */
  examples: WorkflowExample[];
}

/** Token counts as reported by the provider; kinds that it does not report are 0. */
export interface TokenUsage {
  input: number;
  output: number;
  /** Part of `output` spent on reasoning, where reported. */
  thinking: number;
  cache_read: number;
  cache_write_5m: number;
  cache_write_1h: number;
  /** Prompt tokens that the provider read again to compact the conversation, if it did. */
  compaction?: number | undefined;
  /** The provider has not reported all of it: input, output or both are Drover's estimate. */
  estimated?: boolean | undefined;
}

export const NO_TOKENS: TokenUsage = {
  input: 0,
  output: 0,
  thinking: 0,
  cache_read: 0,
  cache_write_5m: 0,
  cache_write_1h: 0,
};

/** The tokens of both, by kind. */
export function addUsage(one: TokenUsage, other: TokenUsage): TokenUsage {
  return {
    input: one.input + other.input,
    output: one.output + other.output,
    thinking: one.thinking + other.thinking,
    cache_read: one.cache_read + other.cache_read,
    cache_write_5m: one.cache_write_5m + other.cache_write_5m,
    cache_write_1h: one.cache_write_1h + other.cache_write_1h,
  };
}

/**
 * Tiers that providers charge more for than for their standard one: of speed (`fast`: Claude, `priority`: GPT), and of a
 * place (`us`: Claude, in the US alone).
 */
export type DearerTier = 'fast' | 'priority' | 'us';

/** All tokens of the prompt, including those cached and those compacted by the provider. */
export const promptTokens = ({ input, cache_read, cache_write_5m, cache_write_1h }: TokenUsage): number =>
  input + cache_read + cache_write_5m + cache_write_1h;

/** Anthropic's stop reasons, to which those of other providers are mapped. */
export const STOP_REASONS = [
  'end_turn',
  'tool_use',
  'max_tokens',
  'stop_sequence',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Error code of a turn whose conversation exceeds the model's context. */
export const CONTEXT_OVERFLOW = 'context_overflow';

/** Parts of a model request that a recorded replay compares; `end_of_record`: the record has no more. */
export const REQUEST_PARTS = ['model', 'system', 'tools', 'messages', 'settings', 'end_of_record'] as const;
export type RequestPart = (typeof REQUEST_PARTS)[number];

export interface ModelResponse {
  provider: string;
  /** The answering model, as named by the provider. */
  model: string;
  content: AssistantBlock[];
  stopReason: StopReason;
  usage: TokenUsage;
  /** The tiers in which it was served, other than the standard one. */
  tiers?: readonly DearerTier[] | undefined;
  /** The container in which the provider's code ran. */
  containerId?: string | undefined;
  /** The provider's ids of files made by its own tools. */
  files?: string[] | undefined;
}

/** A piece of an answer in progress. Shown live, never stored. */
export type ModelDelta = { type: 'text'; text: string } | { type: 'thinking'; text: string };

/** A piece of a call's arguments, as JSON; the first one has the call's name, and may be empty. */
export interface ArgumentsPiece {
  type: 'arguments';
  tool: string;
  /** Index of the call in the answer, from 0; undefined for tools that the provider executes. */
  place: number | undefined;
  text: string;
}

/** A piece of an answer or of a call's arguments, for readers of incomplete arguments. */
export type AnswerPiece = ModelDelta | ArgumentsPiece;

export type ModelErrorKind =
  | 'rate_limited'
  | 'overloaded'
  | 'unavailable'
  | 'timeout'
  | 'aborted'
  | 'invalid_request'
  | 'authentication'
  | 'unknown_model'
  | 'context_too_long';

const TRANSIENT: readonly ModelErrorKind[] = ['rate_limited', 'overloaded', 'unavailable', 'timeout'];

/** A model call that failed. `retryAfterMs`: as requested by the provider. */
export class ModelError extends Error {
  readonly kind: ModelErrorKind;
  readonly retryAfterMs: number | undefined;
  /** Usage by then, as the provider had reported it or as Drover estimates it: it is paid for. */
  readonly usage: TokenUsage | undefined;
  /** As of a response. */
  readonly tiers: readonly DearerTier[] | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: {
      retryAfterMs?: number | undefined;
      cause?: unknown;
      usage?: TokenUsage | undefined;
      tiers?: readonly DearerTier[] | undefined;
    } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'ModelError';
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
    this.usage = options.usage;
    this.tiers = options.tiers;
  }

  /** Whether a retry of the same request may succeed. */
  get transient(): boolean {
    return TRANSIENT.includes(this.kind);
  }
}

/** Each provider has one such streaming function. Throws `ModelError` only. Makes one attempt, or a second one if nothing was sent. */
export type StreamModel = (
  request: ModelRequest,
  io: { signal: AbortSignal; onDelta: (delta: AnswerPiece) => void },
) => Promise<ModelResponse>;
