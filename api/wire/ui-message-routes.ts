/** A thread's history as messages of the AI SDK. */
import { z } from 'zod';
import type { Attachment } from '../../core/content.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Context } from '../../modules/governance/context.ts';
import { readPastTurns, type PastTurn } from '../../modules/conversations/shown-turns.ts';
import { keyOfTurn } from '../../modules/conversations/threads.ts';
import { threadIdInPath } from '../../modules/sessions/converse.ts';
import { encodeCursor, pageFields, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { readTurns } from './read-turns.ts';
import { readTurn, uiMessage, type UiMessage } from './ui-message.ts';

const count = z.int32().min(0);

const list = defineRoute({
  method: 'get',
  path: '/v1/threads/:id/ui-messages',
  access: 'runs:read',
  threadToken: { scope: 'read' },
  summary:
    'What was said on a thread as messages of the AI SDK, two a turn: the newest turns, in their order, and with the ' +
    'cursor those before them. A turn at work is shown as far as the log has it',
  params: z.strictObject({ id: z.string().min(1).max(200) }),
  query: pageQuery(z.tuple([count, count, count.optional()])),
  responses: { 200: pageFields('messages', uiMessage) },
  async handle({ caller, params, query: { limit, cursor: before }, context }) {
    const { tenantId } = caller;
    const { turns, next } = await context.db.withTenant(tenantId, async (tx) => {
      const threadId = await threadIdInPath(tx, caller, params.id);
      return readPastTurns(tx, caller, { threadId, before, limit });
    });
    const { shown, messages } = await showTurns(context, tenantId, turns);
    const last = shown < turns.length ? turns[shown - 1] : undefined;
    const cursor = last ? keyOfTurn(last) : next;
    return { status: 200, body: { messages, ...(cursor && { next_cursor: encodeCursor(cursor) }) } };
  },
});

/** Messages of the turns that fit on a page, at least of one, in conversation order, and the number of turns. */
async function showTurns(
  context: Context,
  tenantId: string,
  turns: readonly PastTurn[],
): Promise<{ shown: number; messages: UiMessage[] }> {
  const pairs: UiMessage[][] = [];
  let bytes = 0;
  for await (const [turn, reader] of readTurns(context, { tenantId, turns }, readTurn)) {
    const pair = [inputOf(turn), reader.message()];
    bytes += JSON.stringify(pair).length;
    if (pairs.length > 0 && bytes > LIMITS.eventsPageBytes) break;
    pairs.push(pair);
  }
  return pageOf(pairs);
}

function pageOf(pairs: UiMessage[][]) {
  return { shown: pairs.length, messages: pairs.toReversed().flat() };
}

/** A turn's input as a message; its id is not the client's own. */
function inputOf({ turnId, runId, threadId, input, isHanded }: PastTurn): UiMessage {
  const { message, attachments = [] } = input;
  return {
    id: `${turnId}.input`,
    role: 'user',
    metadata: { turn_id: turnId, run_id: runId, thread_id: threadId, ...(isHanded && { origin: 'drover' }) },
    parts: [...attachments.map(fileOf), { type: 'text', text: message }],
  };
}

function fileOf(attachment: Attachment): UiMessage['parts'][number] {
  if (attachment.type === 'file') {
    const { file_id: id, media_type: mediaType, filename } = attachment;
    return { type: 'file', mediaType, filename, url: `/v1/files/${id}/content` };
  }
  if (attachment.type === 'text') return { type: 'file', ...dataOf('text/plain', Buffer.from(attachment.text)) };
  const { source } = attachment;
  if (source.type === 'url') return { type: 'file', mediaType: 'image/*', url: source.url };
  return { type: 'file', ...dataOf(source.media_type, Buffer.from(source.data, 'base64')) };
}

function dataOf(mediaType: string, content: Buffer): { mediaType: string; url: string } {
  return { mediaType, url: `data:${mediaType};base64,${content.toString('base64')}` };
}

export const UI_MESSAGE_ROUTES: readonly Route[] = [list];
