/** What a model is asked and what it answers, whoever provides it. */
import type { AssistantBlock, Message } from './content.ts';
import type { WorkflowExample } from './definition.ts';
import type { ProviderOptions } from './provider-settings.ts';

/** A tool as a model sees it. */
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
  /** Most output tokens. */
  maxTokens: number;
  temperature?: number | undefined;
  /** What the agent has its provider do; nothing of it goes to another one. */
  options?: ProviderOptions | undefined;
  /** Only the offline planner reads these as data; other providers find them in `system`. */
  examples: WorkflowExample[];
}

/** Token counts as the provider reports them; a kind it does not report is 0. */
export interface TokenUsage {
  input: number;
  output: number;
  /** Part of `output` spent on reasoning, where reported. */
  thinking: number;
  cache_read: number;
  cache_write_5m: number;
  cache_write_1h: number;
  /** Part of the prompt's tokens that the provider has read once more, to compact the conversation; where it did. */
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

/** All tokens of the prompt, those of the provider's cache and of its own compaction included. */
export const promptTokens = ({ input, cache_read, cache_write_5m, cache_write_1h }: TokenUsage): number =>
  input + cache_read + cache_write_5m + cache_write_1h;

/** Anthropic's stop reasons; other providers' are mapped to them. */
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

/** Error code of a turn whose conversation does not fit its model. */
export const CONTEXT_OVERFLOW = 'context_overflow';

/** What a recorded replay compares of a model's request; `end_of_record`: there is nothing to compare with. */
export const REQUEST_PARTS = ['model', 'system', 'tools', 'messages', 'settings', 'end_of_record'] as const;
export type RequestPart = (typeof REQUEST_PARTS)[number];

export interface ModelResponse {
  provider: string;
  /** The model that answered, as the provider names it. */
  model: string;
  content: AssistantBlock[];
  stopReason: StopReason;
  usage: TokenUsage;
  /** The container that the provider's code has run in. */
  containerId?: string | undefined;
  /** Files that the provider's own tools have made, by its ids. */
  files?: string[] | undefined;
}

/** A piece of an answer that is still being written. Ephemeral: shown live, never stored. */
export type ModelDelta = { type: 'text'; text: string } | { type: 'thinking'; text: string };

/** A piece of the arguments of a call, as JSON; the first comes with the call's name, and may be empty. */
export interface ArgumentsPiece {
  type: 'arguments';
  tool: string;
  /** Which of the answer's calls, from 0; undefined of what the provider executes itself. */
  place: number | undefined;
  text: string;
}

/** The same, or a piece of the arguments of a call: for whoever reads them before they are whole. */
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

/** A model call that gave no answer. `retryAfterMs` is what the provider asked for. */
export class ModelError extends Error {
  readonly kind: ModelErrorKind;
  readonly retryAfterMs: number | undefined;
  /** What the provider had counted by then, where it had said so: it is paid for. */
  readonly usage: TokenUsage | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: { retryAfterMs?: number | undefined; cause?: unknown; usage?: TokenUsage | undefined } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = 'ModelError';
    this.kind = kind;
    this.retryAfterMs = options.retryAfterMs;
    this.usage = options.usage;
  }

  /** Whether the same request may succeed later. */
  get transient(): boolean {
    return TRANSIENT.includes(this.kind);
  }
}

/** One streaming function per provider. Throws `ModelError` only. Makes one attempt, or two where nothing was sent. */
export type StreamModel = (
  request: ModelRequest,
  io: { signal: AbortSignal; onDelta: (delta: AnswerPiece) => void },
) => Promise<ModelResponse>;
