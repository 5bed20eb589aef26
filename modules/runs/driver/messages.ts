/** Messages of a turn: what the user has said, and what the model has said last. */
import { textOf, type Attachment, type UserBlock } from '../../../core/content.ts';
import type { TurnInput } from '../../../core/events.ts';
import { turnInstructions } from '../../../core/output-format.ts';
import { isTaintedInput } from '../../../core/taint.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import { appendMessage, lengthOf, type RunLog } from '../../run-log/run-log.ts';
import type { Drive } from './drive-state.ts';

/** The last message of the turn in which the model said something. */
export function findLastSaid({ log: { messages, state } }: Drive): number | undefined {
  const start = state.turn?.from ?? 0;
  const isWords = ({ ordinal, role, content }: MessageRow) =>
    ordinal >= start && role === 'assistant' && textOf(content) !== '';
  return messages.findLast(isWords)?.ordinal;
}

/**
 * Appends what a turn begins with, unless it is in the conversation: its message, after those that no model has read, and
 * what its answer has to fit. The event of its first model call, or of its first node, counts it.
 */
export function appendQuestion(log: RunLog): void {
  const { turn, unread = [], length } = log.state;
  if (!turn || turn.begun || lengthOf(log) > length || (turn.from ?? length) < length) return;
  for (const input of [...unread, turn.input]) appendMessage(log, userMessage(input));
  const demands = demandsOf(turn.input);
  if (demands) appendMessage(log, demands);
}

/** What a user says, attachments first. */
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

/** What Drover says after the message of a turn whose answer has to fit a schema of its own. */
function demandsOf({ output_schema: schema }: TurnInput): Omit<MessageRow, 'ordinal' | 'chain'> | undefined {
  if (!schema) return undefined;
  const content = [{ type: 'text' as const, text: turnInstructions(schema) }];
  return { role: 'user', content, outcomes: null, origin: 'drover' };
}
