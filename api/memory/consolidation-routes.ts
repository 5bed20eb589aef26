/** Consolidation of agents' memory, and its reversal. */
import { z } from 'zod';
import { CONSOLIDATION_STRATEGIES } from '../../core/memory/consolidation.ts';
import { LIMITS } from '../../core/limits.ts';
import {
  readConsolidations,
  revertConsolidation,
  type ConsolidationRow,
} from '../../modules/memory/consolidate-memory.ts';
import { prepareConsolidation } from '../../modules/memory/consolidate-short-term.ts';
import { embedSoon } from '../../modules/memory/add-memory.ts';
import { requireAgent } from '../../modules/agents/read-agents.ts';
import { idempotently, recallAnswer } from '../../modules/tenants/idempotency.ts';
import { nextOf, pageFields, pageQuery } from '../kit/paging.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';

const ofAgent = z.strictObject({ id: agentIdParam });

const consolidation = z.object({
  id: z.uuid(),
  strategy: z.enum(CONSOLIDATION_STRATEGIES),
  consolidated: z.int(),
  merged: z.int(),
  evicted: z.int(),
  inputs: z.record(z.string(), z.unknown()),
  diff: z.record(z.string(), z.unknown()).describe('Ids of what was kept, shortened, merged, evicted and learnt.'),
  created_at: z.iso.datetime(),
  reverted_at: z.iso.datetime().nullable(),
});

function present(row: ConsolidationRow): z.input<typeof consolidation> {
  return {
    id: row.id,
    strategy: row.strategy as (typeof CONSOLIDATION_STRATEGIES)[number],
    consolidated: row.consolidated,
    merged: row.diff.merged.length,
    evicted: row.evicted,
    inputs: row.inputs,
    diff: { ...row.diff },
    created_at: row.created_at.toISOString(),
    reverted_at: row.reverted_at?.toISOString() ?? null,
  };
}

const consolidateNow = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/memory/consolidate',
  access: 'memory:write',
  summary: 'Consolidate the short term of an agent’s memory now',
  idempotent: true,
  params: ofAgent,
  body: z.strictObject({
    strategy: z.enum(CONSOLIDATION_STRATEGIES).default('hybrid'),
    max_entries: z
      .int()
      .min(1)
      .default(LIMITS.consolidatedEntries)
      .describe(`At most ${LIMITS.consolidatedEntries} are gone through at once, however many are asked for.`),
  }),
  responses: {
    200: z.object({
      consolidated: z.int(),
      merged: z.int(),
      evicted: z.int(),
      procedural: z.int(),
      consolidation_id: z.uuid().nullable().describe('For reverting it; null where nothing was to be done.'),
    }),
  },
  async handle({ caller, params: { id: agentId }, body, context, idempotency }) {
    const { tenantId, workspaceId, keyId } = caller;
    // Models shorten entries before the transaction; for a repeated request none is asked again.
    const earlier = await recallAnswer(context, idempotency);
    if (earlier) return earlier;
    const { definition } = await context.db.withTenant(tenantId, (tx) => requireAgent(tx, caller, agentId));
    const by = {
      strategy: body.strategy,
      maxEntries: Math.min(body.max_entries, LIMITS.consolidatedEntries),
      at: new Date(),
      keyId,
    };
    const asked = { tenantId, workspaceId, agentId, definition, ...by };
    const consolidate = await prepareConsolidation(context, asked, new AbortController().signal);
    const answer = await idempotently(context, idempotency, async (tx) => {
      const { id, ...counts } = await consolidate(tx);
      return { status: 200, body: { ...counts, consolidation_id: id } };
    });
    embedSoon(context, { tenantId, agentId });
    return answer;
  },
});

const list = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/consolidations',
  access: 'memory:read',
  summary: 'List consolidations of an agent’s memory with what they have changed, newest first',
  params: ofAgent,
  query: pageQuery(),
  responses: { 200: pageFields('consolidations', consolidation) },
  async handle({ caller, params, query: { limit, cursor: before }, context }) {
    const page = { agentId: params.id, before, limit };
    const { rows, more } = await context.db.withTenant(caller.tenantId, (tx) => readConsolidations(tx, caller, page));
    const next = nextOf(rows, more, (row) => row.id);
    return { status: 200, body: { consolidations: rows.map(present), ...next } };
  },
});

const revert = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/memory/consolidations/:consolidation/revert',
  access: 'memory:write',
  summary: 'Undo a consolidation; what has changed since then stays',
  params: z.strictObject({ id: agentIdParam, consolidation: idParam }),
  body: z.strictObject({}).optional(),
  responses: { 200: consolidation.extend({ restored: z.int().describe('Entries that are back.') }) },
  async handle({ caller, params, context }) {
    const { row, restored } = await context.db.withTenant(caller.tenantId, (tx) =>
      revertConsolidation(tx, caller, { agentId: params.id, id: params.consolidation }),
    );
    embedSoon(context, { tenantId: caller.tenantId, agentId: params.id });
    return { status: 200, body: { ...present(row), restored } };
  },
});

export const CONSOLIDATION_ROUTES: readonly Route[] = [consolidateNow, list, revert];
