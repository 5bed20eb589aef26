import { inspect } from 'node:util';
import { holdsInfinity, isDeeperThan, isProviderBlock, type AssistantBlock, type TextBlock } from '../core/content.ts';
import { ARGUMENT_DEPTH } from '../core/tool.ts';
import { addUsage, ModelError, NO_TOKENS } from '../core/model.ts';
import type { AnswerPiece, ArgumentsPiece, DearerTier, StopReason, TokenUsage } from '../core/model.ts';
import { tokenCount } from './complete-usage.ts';
import { modelErrorOf } from './model-errors.ts';
import { isCutOff, parseArguments, stopReasonFor } from './messages.ts';
import { notItsApi } from './response-form.ts';

/** An answer as read so far. */
export interface AnswerDraft {
  model: string | undefined;
  usage: TokenUsage;
  /** Tokens of the provider's own compaction of the conversation, which `usage` leaves out. */
  compacted: TokenUsage;
  /** In the provider's words. */
  speed?: string | undefined;
  place?: string | undefined;
  stopReason: string | undefined;
  /** Whether the server has ended the answer. */
  ended: boolean;
  /** By the server's index. */
  blocks: Map<number, DraftBlock>;
  /** The container in which the provider's code ran. */
  containerId?: string | undefined;
}

interface DraftBlock {
  type: string;
  text: string;
  signature: string;
  id: string;
  name: string;
  json: string;
  citations: unknown[];
  /** For a provider's own block: its first form. */
  raw: RawBlock;
}

/** The fields of a stream event or whole message that we read. All optional: compatible servers leave some out. */
interface AnswerEvent {
  type?: string;
  index?: number;
  message?: RawMessage;
  content_block?: RawBlock;
  delta?: {
    type?: string;
    text?: string;
    thinking?: string;
    signature?: string;
    partial_json?: string;
    stop_reason?: string | null;
    citation?: unknown;
    content?: string | null;
    encrypted_content?: string | null;
    container?: { id?: string } | null;
  };
  usage?: RawUsage | null;
  error?: { type?: string; message?: string };
}

interface RawMessage {
  type?: string;
  model?: string;
  content?: RawBlock[];
  stop_reason?: string | null;
  container?: { id?: string } | null;
  usage?: RawUsage | null;
  error?: { type?: string; message?: string };
}

interface RawBlock {
  type?: string;
  text?: string;
  thinking?: string;
  signature?: string;
  data?: string;
  id?: string;
  name?: string;
  input?: unknown;
  citations?: unknown[] | null;
  content?: unknown;
  encrypted_content?: unknown;
}

interface RawUsage {
  input_tokens?: number | null;
  output_tokens?: number | null;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  cache_creation?: { ephemeral_5m_input_tokens?: number; ephemeral_1h_input_tokens?: number } | null;
  speed?: string | null;
  inference_geo?: string | null;
  output_tokens_details?: { thinking_tokens?: number } | null;
  /** The parts of a request that is several at the provider. Compactions are not in its sums. */
  iterations?: ({ type?: string } & RawUsage)[] | null;
}

export function newAnswer(): AnswerDraft {
  return {
    model: undefined,
    usage: NO_TOKENS,
    compacted: NO_TOKENS,
    stopReason: undefined,
    ended: false,
    blocks: new Map(),
  };
}

/** Takes one stream event into the draft and passes new text on. Throws `ModelError` on an error event. */
export function takeEvent(draft: AnswerDraft, event: AnswerEvent, onDelta: (delta: AnswerPiece) => void): void {
  if (event.error) throw streamError(event.error);
  draft.model ??= event.message?.model;
  const usage = event.message?.usage ?? event.usage;
  draft.usage = mergeUsage(draft.usage, usage);
  draft.speed = usage?.speed ?? draft.speed;
  draft.place = usage?.inference_geo ?? draft.place;
  if (Array.isArray(usage?.iterations)) draft.compacted = compactionsIn(usage.iterations);
  draft.stopReason = event.delta?.stop_reason ?? event.message?.stop_reason ?? draft.stopReason;
  const { id: container } = event.message?.container ?? event.delta?.container ?? {};
  if (typeof container === 'string' && CONTAINER_ID.test(container)) draft.containerId = container;
  draft.ended ||= event.type === 'message_stop';
  const index = event.index ?? draft.blocks.size;
  if (event.type === 'content_block_start') beginBlock(draft, { index, block: blockOf(event) }, onDelta);
  const block = draft.blocks.get(event.index ?? index - 1);
  if (event.type !== 'content_block_delta' || !block || !event.delta) return;
  block.json += event.delta.partial_json ?? '';
  block.signature += event.delta.signature ?? '';
  block.text += event.delta.text ?? event.delta.thinking ?? '';
  if (event.delta.citation !== undefined) block.citations.push(event.delta.citation);
  if (event.delta.type === 'compaction_delta') {
    const { content, encrypted_content } = event.delta;
    block.raw = { ...block.raw, content: content ?? null, ...(encrypted_content && { encrypted_content }) };
  }
  if (event.delta.text) onDelta({ type: 'text', text: event.delta.text });
  if (event.delta.thinking) onDelta({ type: 'thinking', text: event.delta.thinking });
  if (event.delta.partial_json) onDelta(argumentsPiece(draft, block, event.delta.partial_json));
}

/** Reports a call as soon as its name is known, with or without arguments. */
function beginBlock(
  draft: AnswerDraft,
  { index, block }: { index: number; block: DraftBlock },
  onDelta: (delta: AnswerPiece) => void,
): void {
  draft.blocks.set(index, block);
  if (block.type === 'tool_use') onDelta(argumentsPiece(draft, block, block.json));
}

function argumentsPiece({ blocks }: AnswerDraft, block: DraftBlock, text: string): ArgumentsPiece {
  const calls = [...blocks.values()].filter(({ type }) => type === 'tool_use');
  const place = calls.indexOf(block);
  return { type: 'arguments', tool: block.name, place: place < 0 ? undefined : place, text };
}

const CONTAINER_ID = /^[\w-]{1,200}$/;

/** Takes a message that came in one piece, as some stand-in servers send even if asked for a stream. */
export function takeMessage(draft: AnswerDraft, message: RawMessage, onDelta: (delta: AnswerPiece) => void): void {
  if (message.error) throw streamError(message.error);
  if (message.content === undefined) throw notItsApi('anthropic', 'JSON that is no answer of a model');
  takeEvent(draft, { type: 'message_start', message }, onDelta);
  (message.content ?? []).forEach((block, index) => {
    takeEvent(draft, { type: 'content_block_start', index, content_block: block }, onDelta);
    if (block.text) onDelta({ type: 'text', text: block.text });
    if (block.thinking) onDelta({ type: 'thinking', text: block.thinking });
  });
  draft.ended = true;
}

/** Content and stop reason of a whole answer. Throws `unavailable` if the stream broke off. */
export function finishAnswer(draft: AnswerDraft): { content: AssistantBlock[]; stopReason: StopReason } {
  if (draft.stopReason === undefined && !draft.ended) {
    throw new ModelError('unavailable', 'anthropic: the answer broke off.');
  }
  const reason = draft.stopReason ? knownReason(draft.stopReason) : undefined;
  const isCut = isCutOff(reason);
  const content = [...draft.blocks.values()].flatMap((block) => assistantBlock(block, isCut));
  return { content, stopReason: stopReasonFor(content, reason ?? 'end_turn') };
}

/** Mid-stream errors have no status: only their type tells an overload from a bad request. */
function streamError(error: { type?: string; message?: string }): ModelError {
  return modelErrorOf('anthropic', { message: error.message ?? error.type ?? 'stream error', type: error.type });
}

/** The text of the arguments, roughly: an infinite number, which JSON lacks, keeps it from parsing. */
const textOf = (input: object) =>
  holdsInfinity(input) ? inspect(input, { depth: ARGUMENT_DEPTH, compact: true }) : JSON.stringify(input);

function blockOf(event: AnswerEvent): DraftBlock {
  const block = event.content_block ?? {};
  const input = block.input && Object.keys(block.input).length > 0 ? textOf(block.input) : '';
  return {
    type: block.type ?? '',
    text: block.text ?? block.thinking ?? block.data ?? '',
    signature: block.signature ?? '',
    id: block.id ?? '',
    name: block.name ?? '',
    json: input,
    citations: Array.isArray(block.citations) ? [...block.citations] : [],
    raw: block,
  };
}

function assistantBlock(block: DraftBlock, isCut: boolean): AssistantBlock[] {
  switch (block.type) {
    case 'text':
      return block.text === '' ? [] : [textBlock(block)];
    case 'thinking':
      return [{ type: 'thinking', thinking: block.text, signature: block.signature }];
    case 'redacted_thinking':
      return [{ type: 'redacted_thinking', data: block.text }];
    case 'tool_use':
      return [{ type: 'tool_use', id: block.id, name: block.name, input: parseArguments(block.json, isCut) }];
    default:
      return providerBlock(block);
  }
}

function textBlock({ text, citations }: DraftBlock): TextBlock {
  const isKept = citations.length > 0 && !isDeeperThan(citations, ARGUMENT_DEPTH);
  return { type: 'text', text, ...(isKept && { citations }) };
}

/**
 * The block as it came, with the input put together from its pieces. Blocks of unknown kinds are dropped: they could
 * not be sent back.
 */
function providerBlock({ type, json, raw }: DraftBlock): AssistantBlock[] {
  const block = { ...raw, type, ...(raw.input !== undefined && { input: parseArguments(json) }) };
  return isProviderBlock(block) && !isDeeperThan(block, ARGUMENT_DEPTH) ? [block] : [];
}

const REASONS: readonly StopReason[] = [
  'end_turn',
  'tool_use',
  'max_tokens',
  'stop_sequence',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
];

function knownReason(reason: string): StopReason {
  // The provider has compacted the conversation, and expects to be asked again.
  if (reason === 'compaction') return 'pause_turn';
  return REASONS.find((known) => known === reason) ?? 'end_turn';
}

/** Counts are cumulative: an event's counts replace earlier ones; those that it omits stay. */
function mergeUsage(known: TokenUsage, raw: RawUsage | null | undefined): TokenUsage {
  if (!raw) return known;
  return {
    input: tokenCount(raw.input_tokens) ?? known.input,
    output: tokenCount(raw.output_tokens) ?? known.output,
    thinking: tokenCount(raw.output_tokens_details?.thinking_tokens) ?? known.thinking,
    cache_read: tokenCount(raw.cache_read_input_tokens) ?? known.cache_read,
    ...cacheWrites(known, raw),
  };
}

function compactionsIn(iterations: readonly ({ type?: string } & RawUsage)[]): TokenUsage {
  return iterations
    .filter((each) => each?.type === 'compaction')
    .reduce((sum, each) => addUsage(sum, mergeUsage(NO_TOKENS, each)), NO_TOKENS);
}

/** All tokens that an answer has used so far, its compactions included. */
export function usageOf({ usage, compacted }: AnswerDraft): TokenUsage {
  const { input, cache_read, cache_write_5m, cache_write_1h } = compacted;
  const compaction = input + cache_read + cache_write_5m + cache_write_1h;
  return { ...addUsage(usage, compacted), ...(compaction > 0 && { compaction }) };
}

/** The tiers in which the answer is served, if it is not the standard one. */
export function tiersOf({ speed, place }: AnswerDraft): DearerTier[] | undefined {
  const tiers: DearerTier[] = [
    ...(speed === 'fast' ? ['fast' as const] : []),
    ...(place === 'us' ? ['us' as const] : []),
  ];
  return tiers.length > 0 ? tiers : undefined;
}

/** The last event repeats the sum without its parts, so the share of the one-hour cache is kept from the first. */
function cacheWrites(known: TokenUsage, raw: RawUsage): Pick<TokenUsage, 'cache_write_5m' | 'cache_write_1h'> {
  const hour = tokenCount(raw.cache_creation?.ephemeral_1h_input_tokens) ?? known.cache_write_1h;
  const sum = tokenCount(raw.cache_creation_input_tokens) ?? known.cache_write_5m + hour;
  const short = tokenCount(raw.cache_creation?.ephemeral_5m_input_tokens) ?? sum - hour;
  return { cache_write_5m: Math.max(0, short), cache_write_1h: hour };
}
