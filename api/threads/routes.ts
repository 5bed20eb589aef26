/** Threads: conversations that outlive runs. */
import { z } from 'zod';
import { hasScope } from '../../core/scopes.ts';
import { externalId, userMetadata } from '../../core/user-metadata.ts';
import { threadTitle } from '../../core/titles.ts';
import { readResumption } from '../../modules/conversations/resumption.ts';
import { changeThread, readThreads, requireThread } from '../../modules/conversations/threads.ts';
import { agentIdParam, threadPathParam } from '../kit/external-ids.ts';
import { metadataFilter } from '../kit/metadata-filter.ts';
import { pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { presentThreadDetail, threadDetail } from './resumption-schema.ts';
import { extras, presentThread, thread } from './schemas.ts';

const params = z.strictObject({ thread: threadPathParam });

const list = defineRoute({
  method: 'get',
  path: '/v1/threads',
  access: 'runs:read',
  summary: 'List threads, newest first',
  query: pageQuery().extend({ agent_id: agentIdParam.optional(), ...metadataFilter }),
  responses: { 200: pageFields('threads', thread) },
  async handle({ caller, query, context }) {
    const { limit, cursor: before, agent_id: agentId, metadata } = query;
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readThreads(tx, caller, { before, agentId, metadata, limit: limit + 1 }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { threads: items.map(presentThread), ...page } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/threads/:thread',
  access: 'runs:read',
  threadToken: { scope: 'read', param: 'thread' },
  summary: 'Get a thread, with what it is taken up with again',
  params,
  query: z.strictObject({
    messages: z
      .enum(['true', 'false'])
      .optional()
      .describe('Shows what the next model call is sent of the conversation.'),
  }),
  responses: { 200: threadDetail },
  async handle({ caller, params: { thread: id }, query, context }) {
    const asked = { definitions: context.definitions, messages: query.messages === 'true' };
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const row = await requireThread(tx, caller, id);
      return presentThreadDetail(row, await readResumption(tx, row, asked));
    });
    return { status: 200, body };
  },
});

const patch = defineRoute({
  method: 'patch',
  path: '/v1/threads/:thread',
  access: 'runs:write',
  summary:
    'Change a thread: its title, its name, its extras and metadata as wholes; 204 for a key that may not read it',
  params,
  body: z.strictObject({
    title: threadTitle.nullable().optional().describe('`null` takes it away.'),
    extras: extras.optional(),
    metadata: userMetadata.optional(),
    external_id: externalId.nullable().optional().describe('`null` takes it away.'),
  }),
  responses: { 200: thread, 204: 'empty' },
  async handle({ caller, params: { thread: id }, body: { external_id: named, ...change }, context }) {
    const row = await context.db.withTenant(caller.tenantId, (tx) =>
      changeThread(tx, caller, { id, externalId: named, ...change }),
    );
    return hasScope(caller.scopes, 'runs:read') ? { status: 200, body: presentThread(row) } : { status: 204 };
  },
});

export const THREAD_ROUTES: readonly Route[] = [list, get, patch];
