/** Conversations: what was said and what it cost, by turn. */
import { z } from 'zod';
import { hasScope } from '../../core/scopes.ts';
import {
  changeConversation,
  readAgentConversations,
  readThreadConversations,
} from '../../modules/conversations/read-conversations.ts';
import { agentIdParam, threadPathParam } from '../kit/external-ids.ts';
import { encodeCursor, pageFields, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';
import { conversation, extras, presentConversation } from './schemas.ts';

const count = z.int32().min(0);

const ofThread = defineRoute({
  method: 'get',
  path: '/v1/threads/:thread/conversations',
  access: 'runs:read',
  threadToken: { scope: 'read', param: 'thread' },
  summary: 'What was said on a thread, a turn each, newest first',
  params: z.strictObject({ thread: threadPathParam }),
  query: pageQuery(z.tuple([count, count, count.optional()])),
  responses: { 200: pageFields('conversations', conversation) },
  async handle({ caller, params: { thread }, query: { limit, cursor: before }, context }) {
    const page = await context.db.withTenant(caller.tenantId, (tx) =>
      readThreadConversations(tx, caller, { threadId: thread, before, limit }),
    );
    return { status: 200, body: presentPage(page) };
  },
});

const ofAgent = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/conversations',
  access: 'runs:read',
  summary: 'What was said in the runs of an agent, a turn each, newest first',
  params: z.strictObject({ id: agentIdParam }),
  query: pageQuery(z.tuple([idParam, count])),
  responses: { 200: pageFields('conversations', conversation) },
  async handle({ caller, params: { id: agent }, query: { limit, cursor: before }, context }) {
    const page = await context.db.withTenant(caller.tenantId, (tx) =>
      readAgentConversations(tx, caller, { agentId: agent, before, limit }),
    );
    return { status: 200, body: presentPage(page) };
  },
});

const patch = defineRoute({
  method: 'patch',
  path: '/v1/threads/:thread/conversations/:conversation',
  access: 'runs:write',
  summary: 'Change what is kept with a conversation: its extras as a whole; 204 for a key that may not read it',
  params: z.strictObject({ thread: threadPathParam, conversation: idParam }),
  body: z.strictObject({ extras: extras.optional() }),
  responses: { 200: conversation, 204: 'empty' },
  async handle({ caller, params: { thread, conversation: id }, body, context }) {
    const changed = await context.db.withTenant(caller.tenantId, (tx) =>
      changeConversation(tx, caller, { threadId: thread, id, extras: body.extras }),
    );
    return hasScope(caller.scopes, 'runs:read') ? { status: 200, body: presentConversation(changed) } : { status: 204 };
  },
});

function presentPage({ conversations, next }: Awaited<ReturnType<typeof readThreadConversations>>) {
  return { conversations: conversations.map(presentConversation), ...(next && { next_cursor: encodeCursor(next) }) };
}

export const CONVERSATION_ROUTES: readonly Route[] = [ofThread, ofAgent, patch];
