/** What follows when a provider refuses a request for its length, although it was estimated to fit. */
import { corrected, correctionAfterRefusal, type Calibration } from '../../../core/calibration.ts';
import type { ModelError } from '../../../core/model.ts';
import { countedTokens } from '../../../llm/counted-tokens.ts';
import type { ResolvedModel } from '../../../llm/models.ts';
import { askedOf, besideTokens, fitContext, offerOf, sourceOf } from './build-request.ts';
import type { Drive } from './drive-state.ts';

/** How the model's estimates are corrected by its refusal; undefined for other errors, and if its length is not the reason. */
export function correctionFor(
  drive: Drive,
  resolved: ResolvedModel,
  { kind, message }: ModelError,
): Calibration | undefined {
  if (kind !== 'context_too_long') return undefined;
  const source = sourceOf(drive);
  const asked = askedOf(source.limits, resolved);
  const estimated = fitContext(source, asked).tokens + besideTokens(source);
  const model = `${asked.provider}/${asked.model}`;
  const counted = countedTokens(message);
  // Prompt and answer together exceed the window.
  const atLeast = asked.window - offerOf(source, asked).max_tokens;
  return correctionAfterRefusal(source.calibration, { model, estimated, counted, atLeast });
}

/** What the provider says, and for which window the request was made: a compatible server may have a smaller one than is assumed. */
export function messageOfRefusal(drive: Drive, resolved: ResolvedModel, { kind, message }: ModelError): string {
  if (kind !== 'context_too_long') return message;
  const { provider, model, window } = askedOf(sourceOf(drive).limits, resolved);
  const name = `${provider}/${model}`;
  return `${message} (${name} is sent up to ${window} tokens; DROVER_CONTEXT_WINDOWS=${name}=<tokens> says otherwise.)`;
}

/**
 * Whether the correction leaves out more of the conversation, so that the model may take it. Other strategies than leaving out
 * shorten the conversation before the next call.
 */
export function cutsMore(drive: Drive, resolved: ResolvedModel, calibration: Calibration): boolean {
  if ((drive.definition.memory_config?.short_term?.strategy ?? 'fifo') !== 'fifo') return false;
  const source = sourceOf(drive);
  const asked = askedOf(source.limits, resolved);
  const after = { ...source, announced: null, calibration: corrected(source.calibration, calibration) };
  const { dropped, tokens, room } = fitContext(after, asked);
  return dropped > fitContext(source, asked).dropped && tokens <= room.most;
}
