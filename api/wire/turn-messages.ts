/** User messages during a turn, and what becomes of them. */
import { z } from 'zod';
import { attachment, type Attachment } from '../../core/content.ts';
import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { withdrawCalls } from './turn-calls.ts';
import { closeText } from './turn-text.ts';
import type { Change, TurnView, UserMessage } from './turn-view.ts';

type Payload = Record<string, unknown>;

/** Queues a message. Only the newest one waits: it replaces the one before. */
export function queueMessage(view: TurnView, payload: Payload): Change[] {
  const isAgain = payload['read_at'] !== undefined;
  const replaced = isAgain ? [] : replaceWaiting(view);
  const { message_id: id, input } = payload;
  const waiting = { status: 'waiting' as const, place: 0, next: null, ...(isAgain && { isAgain }) };
  const message: UserMessage = { id: String(id), text: textOf(input), files: filesOf(input), ...waiting };
  view.messages.push(message);
  return [...replaced, changed(message)];
}

/** Marks the waiting message as replaced by a newer one, in whichever turn. */
export function replaceWaiting({ messages }: TurnView): Change[] {
  const replaced = messages.find(({ status, isAgain }) => status === 'waiting' && !isAgain);
  if (!replaced) return [];
  replaced.status = 'replaced';
  return [changed(replaced)];
}

/** The turn reads the message, or the next one begins with it. */
export function dequeueMessage(view: TurnView, { seq, turn_id: turnId }: LoggedEvent, payload: Payload): Change[] {
  const message = view.messages.find(({ id }) => id === payload['message_id']);
  if (!message) return [];
  const isRead = payload['as'] === 'steer';
  // It was read before the next step: that step's pieces that came early are shown again after it.
  const isAhead = isRead && view.parts.some((part) => part.kind !== 'call' && part.isOpen);
  const withdrawn = isRead ? withdrawCalls(view) : [];
  const closed = [...withdrawn, ...(isAhead ? closeText(view, { isVoid: true }) : [])];
  message.status = isRead ? 'read' : 'begun';
  message.place = view.parts.length;
  message.next = isRead ? null : { turnId: turnId ?? '', seq };
  return [...closed, changed(message)];
}

/** The text of a turn's input, or of a message during it. */
export function textOf(input: unknown): string {
  return typeof input === 'object' && input !== null && 'message' in input ? String(input.message) : '';
}

const withFiles = z.looseObject({ attachments: z.array(attachment) });

/** The files of such an input. */
export function filesOf(input: unknown): Attachment[] {
  return withFiles.safeParse(input).data?.attachments ?? [];
}

const changed = (message: UserMessage): Change => ({ kind: 'message_changed', message });
