/** Messages of a turn: what the user has said, and what the model has said last. */
import { textOf, type Attachment } from '../../../core/content.ts';
import type { TurnInput } from '../../../core/events.ts';
import { turnInstructions } from '../../../core/output-format.ts';
import type { MessageRow } from '../../../db/claim-run.ts';
import type { DriveSession } from './session.ts';

/** The last message of the turn in which the model said something. */
export function findLastSaid({ log: { messages, state } }: DriveSession): number | undefined {
  const start = state.turn?.from ?? 0;
  const isWords = ({ ordinal, role, content }: MessageRow) =>
    ordinal >= start && role === 'assistant' && textOf(content) !== '';
  return messages.findLast(isWords)?.ordinal;
}

/** What a user's message says, attachments first. */
export function userContent({ message, attachments = [] }: TurnInput): Attachment[] {
  return [...attachments, { type: 'text', text: message }];
}

/** What Drover says after the message of a turn whose answer has to fit a schema of its own. */
export function demandsOf({ output_schema: schema }: TurnInput): Omit<MessageRow, 'ordinal' | 'chain'> | undefined {
  if (!schema) return undefined;
  const content = [{ type: 'text' as const, text: turnInstructions(schema) }];
  return { role: 'user', content, outcomes: null, origin: 'drover' };
}
