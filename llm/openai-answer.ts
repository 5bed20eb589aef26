import type { AssistantBlock } from '../core/content.ts';
import { ModelError, NO_TOKENS } from '../core/model.ts';
import type { AnswerPiece, DearerTier, StopReason, TokenUsage } from '../core/model.ts';
import { tokenCount } from './complete-usage.ts';
import { isCutOff, parseArguments, stopReasonFor } from './messages.ts';
import { modelErrorOf } from './model-errors.ts';
import { notItsApi } from './response-form.ts';

/** An answer as read so far. */
export interface CompletionDraft {
  model: string | undefined;
  usage: TokenUsage;
  /** The tiers in which it is served, if it is not the standard one. */
  tiers?: DearerTier[] | undefined;
  finishReason: string | undefined;
  /** Whether the server has named an error as the reason. */
  failed: boolean;
  /** Whether the server has ended the answer. */
  ended: boolean;
  reasoning: string;
  text: string;
  refused: boolean;
  calls: CallDraft[];
}

interface CallDraft {
  index: number | undefined;
  id: string;
  name: string;
  json: string;
}

/** The fields of a chunk, or of a whole completion, that we read. Compatible servers leave some out, or send null. */
interface CompletionChunk {
  model?: string | null;
  choices?: { delta?: RawMessage | null; message?: RawMessage | null; finish_reason?: string | null }[] | null;
  usage?: RawUsage | null;
  service_tier?: unknown;
  error?: unknown;
}

interface RawMessage {
  /** A string, or a list of parts with text. */
  content?: unknown;
  /** The model's reasoning, as named by vLLM and DeepSeek, and by OpenRouter and newer vLLM. */
  reasoning_content?: unknown;
  reasoning?: unknown;
  refusal?: unknown;
  tool_calls?: RawCall[] | null;
}

interface RawCall {
  index?: number | null;
  id?: string | null;
  /** Arguments are JSON text, or the object itself. */
  function?: { name?: string | null; arguments?: unknown } | null;
}

interface RawUsage {
  prompt_tokens?: unknown;
  completion_tokens?: unknown;
  prompt_tokens_details?: { cached_tokens?: unknown; cache_write_tokens?: unknown } | null;
  completion_tokens_details?: { reasoning_tokens?: unknown } | null;
}

export function newCompletion(): CompletionDraft {
  const said = { reasoning: '', text: '', refused: false, failed: false, calls: [] };
  return { model: undefined, usage: NO_TOKENS, finishReason: undefined, ended: false, ...said };
}

/** Takes one chunk (or a whole completion) into the draft and passes new text on. Throws `ModelError` on an error in it. */
export function takeChunk(draft: CompletionDraft, chunk: CompletionChunk, onDelta: (delta: AnswerPiece) => void): void {
  if (chunk.error) throw errorIn(chunk.error);
  draft.model ??= chunk.model ?? undefined;
  if (chunk.service_tier === 'priority') draft.tiers = ['priority'];
  if (chunk.usage) draft.usage = usageOf(chunk.usage);
  const choice = chunk.choices?.[0];
  if (!choice) return;
  // The server may tell the error itself beside this, or after it.
  if (choice.finish_reason === 'error') draft.failed = true;
  else draft.finishReason = choice.finish_reason ?? draft.finishReason;
  const message = choice.delta ?? choice.message ?? {};
  const reasoning = textIn(message.reasoning_content) || textIn(message.reasoning);
  draft.reasoning += reasoning;
  if (reasoning !== '') onDelta({ type: 'thinking', text: reasoning });
  const text = textIn(message.content) + textIn(message.refusal);
  draft.refused ||= textIn(message.refusal) !== '';
  draft.text += text;
  if (text !== '') onDelta({ type: 'text', text });
  if (!Array.isArray(message.tool_calls)) return;
  message.tool_calls.forEach((raw, place) => {
    const { call, piece, isNamed } = takeCall(draft, raw, place);
    const of = { tool: call.name, place: draft.calls.indexOf(call) };
    if (piece !== '' || isNamed) onDelta({ type: 'arguments', ...of, text: piece });
  });
}

/**
 * Takes a completion that came in one piece: it is whole, with or without a finish reason. Throws `invalid_request` for
 * JSON that is no completion.
 */
export function takeCompletion(
  draft: CompletionDraft,
  completion: CompletionChunk,
  onDelta: (delta: AnswerPiece) => void,
): void {
  draft.ended = Boolean(completion.choices?.[0]);
  takeChunk(draft, completion, onDelta);
  if (completion.choices === undefined) throw notItsApi('openai', 'JSON that is no answer of a model');
}

/** Content and stop reason of a whole answer. Throws `unavailable` if the stream broke off, or ended with an error. */
export function finishCompletion(draft: CompletionDraft): { content: AssistantBlock[]; stopReason: StopReason } {
  if (draft.finishReason === undefined && (draft.failed || !draft.ended)) {
    const how = draft.failed ? 'ended with an error' : 'broke off';
    throw new ModelError('unavailable', `openai: the answer ${how}.`);
  }
  const reason = reasonOf(draft);
  const isCut = isCutOff(reason);
  const calls = draft.calls.filter((call) => call.name !== '');
  const content: AssistantBlock[] = [
    ...(draft.reasoning === '' ? [] : [{ type: 'thinking' as const, thinking: draft.reasoning, signature: '' }]),
    ...(draft.text === '' ? [] : [{ type: 'text' as const, text: draft.text }]),
    ...calls.map((call) => ({
      type: 'tool_use' as const,
      id: call.id,
      name: call.name,
      input: parseArguments(call.json, isCut),
    })),
  ];
  return { content, stopReason: stopReasonFor(content, reason ?? 'end_turn') };
}

/** Undefined if the server names no reason. */
function reasonOf({ refused, finishReason }: CompletionDraft): StopReason | undefined {
  if (refused) return 'refusal';
  return finishReason ? (REASONS[finishReason] ?? 'end_turn') : undefined;
}

const REASONS: Record<string, StopReason> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  content_filter: 'refusal',
};

/** Some servers report an error with status 200; its code may be a status. */
function errorIn(error: unknown): ModelError {
  if (typeof error !== 'object' || error === null) return modelErrorOf('openai', { message: String(error) });
  const { message, type, code } = error as Record<string, unknown>;
  const status = Number(code);
  return modelErrorOf('openai', {
    message: typeof message === 'string' ? message : 'the server answered with an error',
    type: typeof type === 'string' ? type : undefined,
    code: typeof code === 'string' ? code : undefined,
    status: status >= 400 && status < 600 ? status : undefined,
  });
}

/** The text, or the joined texts of its parts. */
function textIn(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part: { text?: unknown } | null) => (typeof part?.text === 'string' ? part.text : '')).join('');
}

/** `isNamed`: this piece brings the call's name. */
function takeCall(draft: CompletionDraft, raw: RawCall, place: number) {
  const index = raw.index ?? undefined;
  let call = findCall(draft, raw, place);
  if (!call) {
    call = { index, id: '', name: '', json: '' };
    draft.calls.push(call);
  }
  call.id ||= raw.id ?? '';
  const isNamed = call.name === '' && Boolean(raw.function?.name);
  call.name ||= raw.function?.name ?? '';
  const piece = argumentsIn(raw);
  call.json += piece;
  return { call, piece, isNamed };
}

function argumentsIn(raw: RawCall): string {
  const args = raw.function?.arguments;
  const whole = typeof args === 'object' && args !== null ? JSON.stringify(args) : '';
  return typeof args === 'string' ? args : whole;
}

/**
 * The call that a piece continues; undefined if it begins one, as each entry of a whole completion does. Some servers omit
 * the index, so that a new id begins a new call; others give every call the index 0, or the same id.
 */
function findCall({ calls, ended }: CompletionDraft, raw: RawCall, place: number): CallDraft | undefined {
  if (ended) return undefined;
  const id = raw.id ?? '';
  const hasIndex = typeof raw.index === 'number';
  if (!hasIndex && id === '') return place > 0 || raw.function?.name ? undefined : calls.at(-1);
  const known = calls.findLast((call) => (hasIndex ? call.index === raw.index : call.id === id));
  return known && isOther(known, raw) ? undefined : known;
}

/** Whether a piece that names a call, with a known one's index or id, does not belong to that one. */
function isOther(known: CallDraft, raw: RawCall): boolean {
  const id = raw.id ?? '';
  const name = raw.function?.name ?? '';
  if (name === '') return false;
  if (id !== '' && known.id !== '' && known.id !== id) return true;
  if (known.name !== '' && known.name !== name) return true;
  const piece = argumentsIn(raw);
  // A call that is said again with its id is not made twice: both together are no JSON, which the gate rejects.
  const isRepeated = id !== '' && known.id === id && known.json === piece;
  return piece.trim() !== '' && !isRepeated && isWholeObject(known.json);
}

function isWholeObject(json: string): boolean {
  const text = json.trim();
  if (!text.startsWith('{') || !text.endsWith('}')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** OpenAI includes cached tokens in the prompt; here each kind is separate. */
function usageOf(raw: RawUsage): TokenUsage {
  const cached = tokenCount(raw.prompt_tokens_details?.cached_tokens) ?? 0;
  const written = tokenCount(raw.prompt_tokens_details?.cache_write_tokens) ?? 0;
  return {
    ...NO_TOKENS,
    input: Math.max(0, (tokenCount(raw.prompt_tokens) ?? 0) - cached - written),
    output: tokenCount(raw.completion_tokens) ?? 0,
    thinking: tokenCount(raw.completion_tokens_details?.reasoning_tokens) ?? 0,
    cache_read: cached,
    cache_write_5m: written,
  };
}
