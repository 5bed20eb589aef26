import { OpenAI } from 'openai';
import { _iterSSEMessages } from 'openai/streaming';
import { LIMITS } from '../core/limits.ts';
import { ModelError } from '../core/model.ts';
import type { AnswerPiece, StreamModel } from '../core/model.ts';
import { guardCall, guardedBy } from './call-guard.ts';
import type { CallGuard, ProviderOptions } from './call-guard.ts';
import { withOwnIds } from './messages.ts';
import { toModelError, withUsage } from './model-errors.ts';
import { finishCompletion, newCompletion, takeChunk, takeCompletion } from './openai-answer.ts';
import type { CompletionDraft } from './openai-answer.ts';
import { openaiParams } from './openai-request.ts';
import { providerFetch, toldBy } from './provider-fetch.ts';
import { formOf, parseEvent } from './response-form.ts';

/** OpenAI, or any server that speaks chat completions. One attempt per call; throws `ModelError` only. */
export function openaiModel(options: ProviderOptions): StreamModel {
  const timeoutMs = options.timeoutMs ?? LIMITS.modelTimeoutMs;
  const client = new OpenAI({
    apiKey: options.apiKey,
    baseURL: options.baseUrl ?? 'https://api.openai.com/v1',
    maxRetries: 0,
    fetch: providerFetch,
    ...guardedBy(timeoutMs),
    // The SDK logs what it cannot parse, and that is message content.
    logLevel: 'off',
  });
  return async (request, io) => {
    const guard = guardCall(io.signal, { timeoutMs, idleMs: options.idleMs ?? LIMITS.modelIdleMs });
    const draft = newCompletion();
    try {
      const response = await client.chat.completions
        .create(openaiParams(request), { signal: guard.signal, fetchOptions: toldBy(guard.touch) })
        .asResponse();
      await readAnswer(response, { draft, guard, onDelta: io.onDelta });
      const { content, stopReason } = finishCompletion(draft);
      return {
        provider: 'openai',
        model: draft.model ?? request.model,
        content: withOwnIds(content, request.messages),
        stopReason,
        usage: draft.usage,
        ...(draft.tiers && { tiers: draft.tiers }),
      };
    } catch (error) {
      guard.drop();
      throw withUsage(
        toModelError({ provider: 'openai', baseUrl: options.baseUrl }, error, guard.cutOff()),
        draft.usage,
        draft.tiers,
      );
    } finally {
      guard.close();
    }
  };
}

interface Reading {
  draft: CompletionDraft;
  guard: CallGuard;
  onDelta: (delta: AnswerPiece) => void;
}

/** Reads into the draft, which keeps what it has if this throws. */
async function readAnswer(response: Response, { draft, guard, onDelta }: Reading): Promise<void> {
  if (formOf('openai', response) === 'json') {
    takeCompletion(draft, parseEvent('openai', await response.text()), onDelta);
    return;
  }
  try {
    for await (const { data } of _iterSSEMessages(response, new AbortController())) {
      draft.ended = data.startsWith('[DONE]');
      if (draft.ended) break;
      if (data !== '') takeChunk(draft, parseEvent('openai', data), onDelta);
    }
  } catch (error) {
    // After the finish reason only the usage follows, which can be estimated: the answer is whole, and was paid for.
    if (draft.finishReason === undefined || guard.cutOff() === 'aborted') throw error;
  }
  if (guard.cutOff() === 'aborted') throw new ModelError('aborted', 'openai: the stream was cut off.');
}
