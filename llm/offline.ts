import { setImmediate as nextTick } from 'node:timers/promises';
import type { AssistantBlock } from '../core/content.ts';
import { ModelError, NO_TOKENS } from '../core/model.ts';
import type { StreamModel } from '../core/model.ts';
import { estimateMessages, estimateRequest } from './estimate-tokens.ts';
import { newToolUseId } from './messages.ts';
import { nextMove, type WhyOffline } from './offline-plan.ts';

/**
 * A deterministic planner for trials and tests; no model. Answers are labelled `offline`, tokens are estimates, and the
 * same request gives the same text and calls (only a call's id is new). Throws `ModelError` (`aborted`).
 */
export function offlineModel(why: WhyOffline = 'no_key'): StreamModel {
  return async (request, { signal, onDelta }) => {
    const move = nextMove(request, why);
    for (const piece of piecesOf(move.text)) {
      // Yields between pieces, so that an abort can arrive.
      await nextTick();
      if (signal.aborted) break;
      onDelta({ type: 'text', text: piece });
    }
    if (signal.aborted) throw new ModelError('aborted', 'The call to offline was aborted.');
    const content: AssistantBlock[] = [];
    if (move.text !== '') content.push({ type: 'text', text: move.text });
    if (move.call) {
      content.push({ type: 'tool_use', id: newToolUseId(), name: move.call.tool, input: move.call.input });
    }
    return {
      provider: 'offline',
      model: 'offline',
      content,
      stopReason: move.call ? 'tool_use' : 'end_turn',
      usage: {
        ...NO_TOKENS,
        input: estimateRequest(request),
        output: estimateMessages([{ role: 'assistant', content }]),
      },
    };
  };
}

const PIECE_CHARACTERS = 24;

/** Splits a text into a few pieces, between words. */
function piecesOf(text: string): string[] {
  const pieces: string[] = [];
  for (const word of text.split(/(?<=\s)/)) {
    const last = pieces.at(-1);
    if (last === undefined || last.length >= PIECE_CHARACTERS) pieces.push(word);
    else pieces[pieces.length - 1] = last + word;
  }
  return pieces;
}
