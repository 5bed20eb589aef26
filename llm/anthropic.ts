import { Anthropic } from '@anthropic-ai/sdk';
import { Stream } from '@anthropic-ai/sdk/streaming';
import { LIMITS } from '../core/limits.ts';
import { ModelError } from '../core/model.ts';
import type { AnswerPiece, ModelResponse, StreamModel } from '../core/model.ts';
import { finishAnswer, newAnswer, takeEvent, takeMessage, tiersOf, usageOf } from './anthropic-answer.ts';
import type { AnswerDraft } from './anthropic-answer.ts';
import { filesMadeIn } from './anthropic-files.ts';
import { anthropicParams, withoutContainer, withoutThinking } from './anthropic-request.ts';
import type { AnthropicParams } from './anthropic-request.ts';
import { guardCall, guardedBy } from './call-guard.ts';
import type { CallGuard, ProviderOptions } from './call-guard.ts';
import { withOwnIds } from './messages.ts';
import { toModelError, withUsage } from './model-errors.ts';
import { providerFetch, toldBy } from './provider-fetch.ts';
import { formOf, parseEvent } from './response-form.ts';

/** Claude over the Messages API. One attempt per call, since the queue does the retries; throws `ModelError` only. */
export function anthropicModel(options: ProviderOptions): StreamModel {
  const timeoutMs = options.timeoutMs ?? LIMITS.modelTimeoutMs;
  const client = new Anthropic({
    apiKey: options.apiKey,
    authToken: null,
    baseURL: options.baseUrl ?? 'https://api.anthropic.com',
    maxRetries: 0,
    fetch: providerFetch,
    ...guardedBy(timeoutMs),
    // The SDK logs text that it cannot parse, and that is message content.
    logLevel: 'off',
  });
  return async (request, io) => {
    const guard = guardCall(io.signal, { timeoutMs, idleMs: options.idleMs ?? LIMITS.modelIdleMs });
    const draft = newAnswer();
    try {
      const response = await send(client, anthropicParams(request), { guard, betas: request.options?.betaHeaders });
      await readAnswer(response, { draft, guard, onDelta: io.onDelta });
      const { content, stopReason } = finishAnswer(draft);
      const model = draft.model ?? request.model;
      const files = filesMadeIn(content);
      const tiers = tiersOf(draft);
      const answer: ModelResponse = {
        provider: 'anthropic',
        model,
        content: withOwnIds(content, request.messages),
        stopReason,
        usage: usageOf(draft),
        ...(tiers && { tiers }),
        ...(draft.containerId !== undefined && { containerId: draft.containerId }),
        ...(files.length > 0 && { files }),
      };
      return answer;
    } catch (error) {
      guard.drop();
      throw withUsage(
        toModelError({ provider: 'anthropic', baseUrl: options.baseUrl }, error, guard.cutOff()),
        usageOf(draft),
        tiersOf(draft),
      );
    } finally {
      guard.close();
    }
  };
}

/**
 * Sends the request, and once more without the part that was refused; nothing was generated then. A container expires,
 * and a new one is made if none is named. Thinking blocks belong to a model and conversation: the provider may refuse
 * them after either has changed, as when the conversation was shortened.
 */
async function send(
  client: Anthropic,
  params: AnthropicParams,
  { guard, betas = [] }: { guard: CallGuard; betas?: readonly string[] | undefined },
): Promise<Response> {
  const headers = betas.length > 0 ? { 'anthropic-beta': betas.join(',') } : {};
  const options = { signal: guard.signal, headers, fetchOptions: toldBy(guard.touch) };
  const post = (body: AnthropicParams) => client.messages.create(body, options).asResponse();
  try {
    return await post(params);
  } catch (error) {
    const plain = mendedBy(error, params);
    if (!plain) throw error;
    return post(plain);
  }
}

/** The refused request without its thinking or container, if that was the reason; else undefined. */
function mendedBy(error: unknown, params: AnthropicParams): AnthropicParams | undefined {
  const isRefused = error instanceof Anthropic.BadRequestError || error instanceof Anthropic.NotFoundError;
  if (!isRefused) return undefined;
  if (/container/i.test(error.message)) return withoutContainer(params);
  return /thinking|signature/i.test(error.message) ? withoutThinking(params) : undefined;
}

interface Reading {
  draft: AnswerDraft;
  guard: CallGuard;
  onDelta: (delta: AnswerPiece) => void;
}

/** Reads into the draft, which keeps what it has if this throws. */
async function readAnswer(response: Response, { draft, guard, onDelta }: Reading): Promise<void> {
  if (formOf('anthropic', response) === 'json') {
    takeMessage(draft, parseEvent('anthropic', await response.text()), onDelta);
    return;
  }
  try {
    for await (const event of Stream.rawEvents(response)) {
      if (event.data !== '') takeEvent(draft, parseEvent('anthropic', event.data), onDelta);
      if (draft.ended) break;
    }
  } catch (error) {
    // Errors after the stop reason do not matter: the answer is whole, and was paid for.
    if (draft.stopReason === undefined || guard.cutOff() === 'aborted') throw error;
  }
  if (guard.cutOff() === 'aborted') throw new ModelError('aborted', 'anthropic: the stream was cut off.');
}
