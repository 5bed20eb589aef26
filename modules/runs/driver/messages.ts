/** Messages of a turn: the user's, and the model's last words. */
import { textOf, type Attachment, type UserBlock } from '../../../core/content.ts';
import type { TurnInput } from '../../../core/events.ts';
import { turnInstructions } from '../../../core/output-format.ts';
import { isTaintedInput } from '../../../core/taint.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import { appendMessage, lengthOf, type RunLog } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** Ordinal of the turn's last message with words of the model. */
export function findLastSaid({ log: { messages, state } }: Drive): number | undefined {
  const start = state.turn?.from ?? 0;
  const isWords = ({ ordinal, role, content }: MessageRow) =>
    ordinal >= start && role === 'assistant' && textOf(content) !== '';
  return messages.findLast(isWords)?.ordinal;
}

/**
 * Appends a turn's first messages, unless they are in the conversation: those that no model has read, its own, and the format
 * its answer must fit. The event of its first model call or node counts them.
 */
export function appendQuestion(log: RunLog): void {
  const { turn, unread = [], length } = log.state;
  if (!turn || turn.begun || lengthOf(log) > length || (turn.from ?? length) < length) return;
  for (const input of [...unread, turn.input]) appendMessage(log, userMessage(input));
  const demands = demandsOf(turn.input);
  if (demands) appendMessage(log, demands);
}

/** A user's message, attachments first. */
export function userMessage(input: TurnInput): Omit<MessageRow, 'ordinal' | 'chain'> {
  const { message, attachments = [] } = input;
  const content: UserBlock[] = [...attachments.map(asBlock), { type: 'text', text: message }];
  const said = { role: 'user' as const, content, outcomes: null };
  return isTaintedInput(input) ? { ...said, trust: 'untrusted' } : said;
}

function asBlock(attachment: Attachment): UserBlock {
  if (attachment.type !== 'file') return attachment;
  const { trust: _, ...block } = attachment;
  return block;
}

/** Drover's message about the schema that a turn's answer must fit; undefined without one. */
function demandsOf({ output_schema: schema }: TurnInput): Omit<MessageRow, 'ordinal' | 'chain'> | undefined {
  if (!schema) return undefined;
  const content = [{ type: 'text' as const, text: turnInstructions(schema) }];
  return { role: 'user', content, outcomes: null, origin: 'drover' };
}
