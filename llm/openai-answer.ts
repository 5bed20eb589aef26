import type { AssistantBlock } from '../core/content.ts';
import { ModelError, NO_TOKENS } from '../core/model.ts';
import type { ModelDelta, StopReason, TokenUsage } from '../core/model.ts';
import { parseArguments, stopReasonFor } from './messages.ts';

/** An answer as far as it has been read. */
export interface CompletionDraft {
  model: string | undefined;
  usage: TokenUsage;
  finishReason: string | undefined;
  text: string;
  refused: boolean;
  calls: CallDraft[];
}

interface CallDraft {
  id: string;
  name: string;
  json: string;
}

/** The fields of a chunk, or of a whole completion, that we read. All optional: compatible servers leave some out. */
export interface CompletionChunk {
  model?: string;
  choices?: { delta?: RawMessage; message?: RawMessage; finish_reason?: string | null }[];
  usage?: RawUsage | null;
}

interface RawMessage {
  content?: string | null;
  refusal?: string | null;
  tool_calls?: { index?: number; id?: string; function?: { name?: string; arguments?: string } }[];
}

interface RawUsage {
  prompt_tokens?: number;
  completion_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number; cache_write_tokens?: number } | null;
  completion_tokens_details?: { reasoning_tokens?: number } | null;
}

export function newCompletion(): CompletionDraft {
  return { model: undefined, usage: NO_TOKENS, finishReason: undefined, text: '', refused: false, calls: [] };
}

/** Takes one chunk (or a whole completion) into the draft and passes new text on. */
export function takeChunk(draft: CompletionDraft, chunk: CompletionChunk, onDelta: (delta: ModelDelta) => void): void {
  draft.model ??= chunk.model;
  if (chunk.usage) draft.usage = usageOf(chunk.usage);
  const choice = chunk.choices?.[0];
  if (!choice) return;
  draft.finishReason = choice.finish_reason ?? draft.finishReason;
  const message = choice.delta ?? choice.message ?? {};
  const text = (message.content ?? '') + (message.refusal ?? '');
  draft.refused ||= Boolean(message.refusal);
  draft.text += text;
  if (text !== '') onDelta({ type: 'text', text });
  (message.tool_calls ?? []).forEach((call, position) => {
    const known = (draft.calls[callIndex(draft, call, position)] ??= { id: '', name: '', json: '' });
    known.id ||= call.id ?? '';
    known.name ||= call.function?.name ?? '';
    known.json += call.function?.arguments ?? '';
  });
}

/** Content and stop reason of a whole answer. Throws `unavailable` where the stream ended before its end. */
export function finishCompletion(draft: CompletionDraft): { content: AssistantBlock[]; stopReason: StopReason } {
  if (draft.finishReason === undefined) throw new ModelError('unavailable', 'openai: the answer broke off.');
  const calls = draft.calls.filter((call) => call.name !== '');
  const content: AssistantBlock[] = [
    ...(draft.text === '' ? [] : [{ type: 'text' as const, text: draft.text }]),
    ...calls.map((call) => ({
      type: 'tool_use' as const,
      id: call.id,
      name: call.name,
      input: parseArguments(call.json),
    })),
  ];
  const reason = draft.refused ? 'refusal' : (REASONS[draft.finishReason] ?? 'end_turn');
  return { content, stopReason: stopReasonFor(content, reason) };
}

const REASONS: Record<string, StopReason> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  function_call: 'tool_use',
  content_filter: 'refusal',
};

/** Some servers leave the index out: a new id then begins a new call, anything else goes on with the last one. */
function callIndex(draft: CompletionDraft, call: { index?: number; id?: string }, position: number): number {
  if (call.index !== undefined) return call.index;
  const known = draft.calls.findIndex((other) => other.id !== '' && other.id === call.id);
  if (known >= 0) return known;
  return call.id !== undefined || position > 0 ? draft.calls.length : Math.max(0, draft.calls.length - 1);
}

/** OpenAI counts cached tokens into the prompt; here each kind stands for itself. */
function usageOf(raw: RawUsage): TokenUsage {
  const cached = raw.prompt_tokens_details?.cached_tokens ?? 0;
  const written = raw.prompt_tokens_details?.cache_write_tokens ?? 0;
  return {
    ...NO_TOKENS,
    input: Math.max(0, (raw.prompt_tokens ?? 0) - cached - written),
    output: raw.completion_tokens ?? 0,
    thinking: raw.completion_tokens_details?.reasoning_tokens ?? 0,
    cache_read: cached,
    cache_write_5m: written,
  };
}
