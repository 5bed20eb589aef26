/** What agents have learnt, where memories were used and why, and what that costs. */
import { z } from 'zod';
import { MEMORY_STATUSES, MEMORY_TYPES } from '../../core/memory/entry.ts';
import { shownSum, sumMoney } from '../../core/money.ts';
import {
  readExtractions,
  readMemoryUses,
  readUsageOfMemory,
  type ExtractionRow,
  type MemoryUseRow,
} from '../../modules/memory/read-reports.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';

const ofAgent = z.strictObject({ id: agentIdParam });
const when = z.iso.datetime();
const counts = z.record(z.string(), z.int());

const extraction = z
  .object({
    turn_id: z.uuid(),
    run_id: z.uuid(),
    status: z.enum(['due', 'done']),
    made_by: z.enum(['model', 'rules']).nullable(),
    added: z.array(z.uuid()),
    superseded: z.array(z.uuid()).describe('The entries that have taken the place of others.'),
    refused: counts.describe('How many texts each rule has refused.'),
    attempts: z.int(),
    due_at: when,
    created_at: when,
    finished_at: when.nullable(),
  })
  .meta({ id: 'MemoryExtraction' });

function presentExtraction({ agent_id: _agent, ...row }: ExtractionRow): z.input<typeof extraction> {
  const finished_at = row.finished_at?.toISOString() ?? null;
  return { ...row, due_at: row.due_at.toISOString(), created_at: row.created_at.toISOString(), finished_at };
}

const extractions = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/extractions',
  access: 'memory:read',
  summary: 'List what an agent has learnt from its turns, and how much of it rules have refused, newest first',
  params: ofAgent,
  query: pageQuery(),
  responses: { 200: pageFields('extractions', extraction) },
  async handle({ caller, params, query: { limit, cursor: before }, context }) {
    const page = { agentId: params.id, before, limit: limit + 1 };
    const rows = await context.db.withTenant(caller.tenantId, (tx) => readExtractions(tx, caller, page));
    const { items, ...next } = pageOf(rows, limit, (row) => row.turn_id);
    return { status: 200, body: { extractions: items.map(presentExtraction), ...next } };
  },
});

const use = z.object({
  id: z.uuid(),
  operation: z.enum(['turn', 'recall', 'query', 'write', 'search', 'resolve']),
  run_id: z.uuid().nullable(),
  turn_id: z.uuid().nullable(),
  score: z.number().nullable(),
  why: z.record(z.string(), z.number()).nullable().describe('What each signal had added to the score.'),
  accessed_at: when,
});

function presentUse({ memory_id: _memory, agent_id: _agent, ...row }: MemoryUseRow): z.input<typeof use> {
  return { ...row, accessed_at: row.accessed_at.toISOString() };
}

const uses = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/:entry/uses',
  access: 'memory:read',
  summary: 'List where a memory was used, and why it was found, newest first',
  params: z.strictObject({ id: agentIdParam, entry: idParam }),
  query: pageQuery(),
  responses: { 200: pageFields('uses', use) },
  async handle({ caller, params, query: { limit, cursor: before }, context }) {
    const page = { agentId: params.id, memoryId: params.entry, before, limit: limit + 1 };
    const rows = await context.db.withTenant(caller.tenantId, (tx) => readMemoryUses(tx, caller, page));
    const { items, ...next } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { uses: items.map(presentUse), ...next } };
  },
});

const costs = {
  cost_usd: z.number().nullable().describe('USD, exact, of the calls whose cost is known; null where that of none is.'),
  unpriced: z.int().describe('The calls whose cost is not known: cost_usd is without them.'),
};

const usage = defineRoute({
  method: 'get',
  path: '/v1/agents/:id/memory/usage',
  access: 'memory:read',
  summary: 'Sum up what an agent remembers, what rules have refused, and what models were paid for it',
  params: ofAgent,
  responses: {
    200: z.object({
      entries: z.array(
        z.object({
          memory_type: z.enum(MEMORY_TYPES),
          status: z.enum(MEMORY_STATUSES),
          count: z.int(),
          tokens: z.int(),
        }),
      ),
      refused: counts,
      model_calls: z.array(
        z.object({
          purpose: z.string(),
          calls: z.int(),
          tokens_in: z.int(),
          tokens_out: z.int(),
          ...costs,
        }),
      ),
      ...costs,
    }),
  },
  async handle({ caller, params, context }) {
    const read = await context.db.withTenant(caller.tenantId, (tx) => readUsageOfMemory(tx, caller, params.id));
    const calls = read.model_calls.map((row) => ({ ...row, cost_usd: shownSum(row.cost_usd, row.unpriced) }));
    const cost = sumMoney(read.model_calls.map((row) => row.cost_usd)) ?? '0';
    const unpriced = read.model_calls.reduce((sum, row) => sum + row.unpriced, 0);
    return { status: 200, body: { ...read, model_calls: calls, cost_usd: shownSum(cost, unpriced), unpriced } };
  },
});

/** Come before routes with an entry's id in the same place. */
export const MEMORY_REPORT_ROUTES: readonly Route[] = [extractions, usage, uses];
