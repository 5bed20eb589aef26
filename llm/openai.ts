import { OpenAI } from 'openai';
import { Stream } from 'openai/streaming';
import { LIMITS } from '../core/limits.ts';
import { ModelError } from '../core/model.ts';
import type { ModelDelta, StreamModel } from '../core/model.ts';
import { DEFAULT_IDLE_MS, guardCall } from './call-guard.ts';
import type { CallGuard, ProviderOptions } from './call-guard.ts';
import { withOwnIds } from './messages.ts';
import { toModelError } from './model-errors.ts';
import { finishCompletion, newCompletion, takeChunk } from './openai-answer.ts';
import type { CompletionChunk, CompletionDraft } from './openai-answer.ts';
import { openaiParams } from './openai-request.ts';

/** OpenAI, or any server that speaks chat completions. One attempt per call; throws `ModelError` only. */
export function openaiModel(options: ProviderOptions): StreamModel {
  const timeoutMs = options.timeoutMs ?? LIMITS.modelTimeoutMs;
  const client = new OpenAI({
    apiKey: options.apiKey,
    baseURL: options.baseUrl ?? 'https://api.openai.com/v1',
    maxRetries: 0,
    timeout: timeoutMs,
    // The SDK logs what it cannot parse, and that is message content.
    logLevel: 'off',
  });
  return async (request, io) => {
    const guard = guardCall(io.signal, { timeoutMs, idleMs: options.idleMs ?? DEFAULT_IDLE_MS });
    try {
      const response = await client.chat.completions
        .create(openaiParams(request), { signal: guard.signal })
        .asResponse();
      const draft = await readAnswer(response, guard, io.onDelta);
      const { content, stopReason } = finishCompletion(draft);
      return {
        provider: 'openai',
        model: draft.model ?? request.model,
        content: withOwnIds(content, request.messages),
        stopReason,
        usage: draft.usage,
      };
    } catch (error) {
      throw toModelError('openai', error, guard.cutOff());
    } finally {
      guard.close();
    }
  };
}

async function readAnswer(
  response: Response,
  guard: CallGuard,
  onDelta: (delta: ModelDelta) => void,
): Promise<CompletionDraft> {
  const draft = newCompletion();
  if (response.headers.get('content-type')?.includes('application/json')) {
    takeChunk(draft, (await response.json()) as CompletionChunk, onDelta);
    return draft;
  }
  const controller = new AbortController();
  for await (const chunk of Stream.fromSSEResponse<CompletionChunk>(response, controller)) {
    guard.touch();
    takeChunk(draft, chunk, onDelta);
  }
  if (guard.cutOff()) throw new ModelError('aborted', 'openai: the stream was cut off.');
  return draft;
}
