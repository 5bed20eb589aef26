/** Agents' memory. */
import { z } from 'zod';
import { beginningOf } from '../../core/content.ts';
import { forbidden } from '../../core/errors.ts';
import { MEMORY_ORIGINS, MEMORY_STATUSES, memoryType, readMetadata } from '../../core/memory/entry.ts';
import { hasScope } from '../../core/scopes.ts';
import { addMemory, embedSoon, toMemoryRow } from '../../modules/memory/add-memory.ts';
import { changeMemory } from '../../modules/memory/change-memory.ts';
import { checkContradictions } from '../../modules/memory/contradictions.ts';
import { forgetMemories } from '../../modules/memory/forget-memories.ts';
import {
  originOf,
  readArchive,
  readMemories,
  readWithHistory,
  requireMemory,
} from '../../modules/memory/read-memories.ts';
import { recall } from '../../modules/memory/recall.ts';
import { requireAgent } from '../../modules/agents/read-agents.ts';
import { idempotently } from '../../modules/tenants/idempotency.ts';
import { nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { agentIdParam, externalIdParam, nameOrId, threadNameParam, withIds } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam, timeParam } from '../kit/validate.ts';
import {
  archivedMemory,
  forgetRequest,
  forgotten,
  memory,
  memoryPatch,
  memoryQuery,
  memoryWithHistory,
  newMemory,
  presentArchived,
  presentChanged,
  presentMemory,
  presentRecalled,
  presentWithHistory,
  recalledMemory,
} from './schemas.ts';

const ofAgent = z.strictObject({ id: agentIdParam });
const ofEntry = z.strictObject({ id: agentIdParam, entry: idParam });

const add = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/memory',
  access: 'memory:write',
  summary: 'Add to what an agent remembers; the vector follows',
  idempotent: true,
  params: ofAgent,
  body: newMemory,
  responses: { 201: memory },
  async handle({ caller, params, body, context, idempotency }) {
    const { id: agentId } = params;
    const { metadata, expires_at: expiresAt, ...rest } = body;
    const thread = rest.thread_id ?? (await withIds(context, caller, async () => conversationOf(metadata ?? {})));
    const given = { ...rest, metadata: metadata ?? {}, thread_id: thread, expires_at: expiresAt ?? undefined };
    const from = { tenantId: caller.tenantId, agentId, keyId: caller.keyId, origin: originOf(given.metadata) };
    const answer = await idempotently(context, idempotency, async (tx) => {
      const { definition } = await requireAgent(tx, caller, agentId);
      const { id } = await addMemory(tx, toMemoryRow(given, from));
      const { tenantId, workspaceId } = caller;
      await checkContradictions(tx, { tenantId, workspaceId, agentId, definition, by: caller, ids: [id] });
      return {
        status: 201,
        body: presentMemory(await requireMemory(tx, caller, { agentId, id, evenEnded: true })),
      };
    });
    embedSoon(context, from);
    return { ...answer, headers: { location: `/v1/agents/${agentId}/memory/${answer.body.id}` } };
  },
});

/** The conversation that the metadata name; `ext:` and an external id stand for a thread there, too. */
function conversationOf(metadata: Readonly<Record<string, unknown>>): string | undefined {
  const { conversation } = readMetadata(metadata);
  if (conversation === undefined) return undefined;
  const isExternal = externalIdParam.safeParse(conversation).success;
  return isExternal ? threadNameParam.parse(conversation) : nameOrId.parse(beginningOf(conversation, 200));
}

/** The end of the previous page: importance and id of its last entry. */
const position = z
  .string()
  .regex(/^\d+(\.\d+)?(e-\d+)? [\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/)
  .transform((text) => ({ importance: Number(text.split(' ')[0]), id: text.split(' ')[1] ?? '' }));

const list = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory',
  access: 'memory:read',
  summary: 'List what an agent remembers, the most important first',
  params: ofAgent,
  query: pageQuery(position).extend({
    memory_type: memoryType.optional(),
    status: z.enum(MEMORY_STATUSES).default('active'),
    thread_id: threadNameParam.optional(),
    origin: z.enum(MEMORY_ORIGINS).optional(),
    run_id: idParam.optional(),
    subject: z.string().min(1).max(1000).optional(),
    user_id: z.string().min(1).max(200).optional(),
    created_after: timeParam.optional(),
    created_before: timeParam.optional(),
  }),
  responses: { 200: pageFields('entries', memory) },
  async handle({ caller, params, query, context }) {
    const { limit, cursor: after, status, origin, subject } = query;
    const page = {
      agentId: params.id,
      after,
      status,
      origin,
      subject,
      memoryType: query.memory_type,
      threadId: query.thread_id,
      runId: query.run_id,
      userId: query.user_id,
      createdAfter: query.created_after,
      createdBefore: query.created_before,
      limit,
    };
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readMemories(tx, caller, page));
    const next = nextOf(rows, more, ({ importance, id }) => `${importance} ${id}`);
    return { status: 200, body: { entries: rows.map(presentMemory), ...next } };
  },
});

const query = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/memory/query',
  access: 'memory:read',
  summary: 'Ask what an agent remembers; each hit says why',
  params: ofAgent,
  body: memoryQuery,
  responses: { 200: z.object({ entries: z.array(recalledMemory) }) },
  async handle({ caller, params, body, context }) {
    const { id: agentId } = params;
    const { definition } = await context.db.withTenant(caller.tenantId, (tx) => requireAgent(tx, caller, agentId));
    const { memory_types: types, thread_id: threadId } = body;
    const hits = await recall(
      context,
      {
        tenantId: caller.tenantId,
        agentId,
        operation: 'query',
        memoryTypes: types ?? undefined,
        threadId: threadId ?? undefined,
      },
      {
        text: body.query,
        at: body.at ?? context.clock(),
        topK: body.top_k,
        minScore: body.min_score,
        model: context.embeddings.modelFor(definition.memory_config?.long_term?.embedding_model),
      },
    );
    return { status: 200, body: { entries: hits.map(presentRecalled) } };
  },
});

const archive = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/archive',
  access: 'memory:read',
  summary: 'List what was taken from among an agent’s memories, newest first',
  params: ofAgent,
  query: pageQuery(),
  responses: { 200: pageFields('entries', archivedMemory) },
  async handle({ caller, params, query: { limit, cursor: before }, context }) {
    const page = { agentId: params.id, before, limit };
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readArchive(tx, caller, page));
    const next = nextOf(rows, more, (row) => row.id);
    return { status: 200, body: { entries: rows.map(presentArchived), ...next } };
  },
});

const MUST_READ = 'The key does not have the scope "memory:read", which a dry run by `query` or `subject` needs.';

const forget = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/memory/forget',
  access: 'memory:write',
  summary: 'Forget memories for good, wherever they are; with dry_run only say what would go',
  params: ofAgent,
  body: forgetRequest,
  responses: { 200: forgotten },
  async handle({ caller, params, body, context }) {
    const { ids, query: words, subject = '', dry_run: dryRun } = body;
    const what = ids ? { ids } : words !== undefined ? { query: words } : { subject };
    const mayRead = hasScope(caller.scopes, 'memory:read');
    // Its count tells, word by word, what the memories say.
    if (dryRun && !ids && !mayRead) throw forbidden(MUST_READ);
    const answer = await context.db.withTenant(caller.tenantId, (tx) =>
      forgetMemories(tx, caller, { agentId: params.id, what, dryRun }),
    );
    return { status: 200, body: mayRead ? answer : { ...answer, ids: [] } };
  },
});

const get = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/:entry',
  access: 'memory:read',
  summary: 'Get a memory with the versions of its fact, page by page',
  params: ofEntry,
  query: pageQuery(z.int().positive()),
  responses: { 200: memoryWithHistory },
  async handle({ caller, params, query: { cursor: below, limit }, context }) {
    const found = await context.db.withTenant(caller.tenantId, (tx) =>
      readWithHistory(tx, caller, { agentId: params.id, id: params.entry, below, limit }),
    );
    return { status: 200, body: presentWithHistory(found.entry, found.history) };
  },
});

const change = defineRoute({
  method: 'patch',
  path: '/v1/agents/:id/memory/:entry',
  access: 'memory:write',
  summary: 'Correct a memory: a new content supersedes the old one, with who and why',
  params: ofEntry,
  body: memoryPatch,
  responses: { 200: memoryWithHistory },
  async handle({ caller, params, body, context }) {
    const { id: agentId, entry: id } = params;
    const found = await context.db.withTenant(caller.tenantId, async (tx) => {
      const next = await changeMemory(tx, caller, { agentId, id, patch: body });
      return readWithHistory(tx, caller, { agentId, id: next, evenEnded: true });
    });
    embedSoon(context, { tenantId: caller.tenantId, agentId });
    return { status: 200, body: presentChanged(caller, found.entry, found.history) };
  },
});

const remove = defineRoute({
  method: 'delete',
  path: '/v1/agents/:id/memory/:entry',
  access: 'memory:write',
  summary: 'Forget a memory with all versions of its fact',
  params: ofEntry,
  responses: { 204: 'empty' },
  async handle({ caller, params, context }) {
    const { id: agentId, entry: id } = params;
    await context.db.withTenant(caller.tenantId, async (tx) => {
      await requireMemory(tx, caller, { agentId, id, evenEnded: true });
      await forgetMemories(tx, caller, { agentId, what: { ids: [id] }, dryRun: false });
    });
    return { status: 204 };
  },
});

/** Paths with a fixed last part come before those with an id there. */
export const MEMORY_ROUTES: readonly Route[] = [add, list, query, archive, forget, get, change, remove];
