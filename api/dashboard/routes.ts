/** The dashboard: usage of runs over days. */
import { z } from 'zod';
import { badRequest } from '../../core/errors.ts';
import { shownSum } from '../../core/money.ts';
import {
  readAgentSums,
  readErrors,
  readOwnSums,
  readQueues,
  readRunSums,
  readUsageSums,
  readWaitingPeople,
  type DashboardRange,
  type FailedTurnRow,
  type RunSums,
} from '../../modules/dashboard/read-dashboard.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { momentParam } from '../kit/validate.ts';
import { pageFields, pageOf, pageQuery } from '../kit/paging.ts';
import { defineRoute, type Route } from '../kit/route.ts';

const DAY_MS = 86_400_000;
const DEFAULT_DAYS = 7;
const MOST_DAYS = 366;
/** The range of days that have four-digit years. */
const FIRST_DAY = new Date('1970-01-01');
const LAST_DAY = new Date('9999-01-01');

const moment = z
  .union([z.iso.date(), momentParam], { error: 'must be a day (2026-11-22) or a time (2026-11-22T10:00:00Z)' })
  .transform((text) => new Date(text))
  .refine((day) => day >= FIRST_DAY && day < LAST_DAY, 'is not a day of the years 1970 to 9998')
  .meta({ type: 'string' });
const range = z.strictObject({
  from: moment.optional().describe('The day (UTC) it begins with; seven days up to now where absent.'),
  to: moment.optional().describe('The day (UTC) it ends with, that day included; today where absent.'),
  agent_id: agentIdParam.optional(),
});

function rangeOf(query: z.output<typeof range>): DashboardRange {
  const to = startOfDay(query.to ?? new Date()) + DAY_MS;
  const from = query.from ? startOfDay(query.from) : to - DEFAULT_DAYS * DAY_MS;
  if (from >= to) throw turnedAround();
  if (to - from > MOST_DAYS * DAY_MS) {
    const message = `is more than ${MOST_DAYS} days before query.to`;
    throw badRequest(`query.from ${message}.`, [{ path: 'query.from', message }]);
  }
  return { from: dayOf(from), to: dayOf(to), agentId: query.agent_id };
}

function turnedAround(): Error {
  return badRequest('query.from is after query.to.', [{ path: 'query.from', message: 'is after query.to' }]);
}

const startOfDay = (time: Date) => Math.floor(time.getTime() / DAY_MS) * DAY_MS;
const dayOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

function shownRange({ from, to }: DashboardRange) {
  return { from, to: dayOf(Date.parse(to) - DAY_MS) };
}

/** The named days; without a name, that end is open. */
function openRangeOf({ from, to, agent_id: agentId }: z.output<typeof range>): Partial<DashboardRange> {
  if (from && to && startOfDay(from) > startOfDay(to)) throw turnedAround();
  return {
    agentId,
    ...(from && { from: dayOf(startOfDay(from)) }),
    ...(to && { to: dayOf(startOfDay(to) + DAY_MS) }),
  };
}

const costs = {
  cost_usd: z.number().nullable().describe('USD, exact, of what has a known price; null where nothing has.'),
  unpriced: z
    .number()
    .describe('How much of what is counted has no known price, or not all of it: cost_usd is without that.'),
};

function presentCosts(costUsd: string, unpriced: number) {
  return { cost_usd: shownSum(costUsd, unpriced), unpriced };
}

const days = { from: z.iso.date(), to: z.iso.date() };
const sums = {
  runs: z.number(),
  by_status: z.record(z.string(), z.number()),
  turns: z.number(),
  steps: z.number(),
  tokens_in: z.number(),
  tokens_out: z.number(),
  ...costs,
  success_rate: z.number().nullable().describe('Of the runs that have ended.'),
  avg_duration_ms: z.number().nullable(),
  avg_tokens_per_run: z.number().nullable(),
};

function presentSums(of: RunSums) {
  return {
    runs: of.runs,
    by_status: of.byStatus as Record<string, number>,
    turns: of.turns,
    steps: of.steps,
    tokens_in: of.tokensIn,
    tokens_out: of.tokensOut,
    ...presentCosts(of.costUsd, of.unpriced),
    success_rate: of.successRate,
    avg_duration_ms: of.averageDurationMs,
    avg_tokens_per_run: of.averageTokens,
  };
}

const runs = defineRoute({
  method: 'get',
  path: '/v1/dashboard/runs',
  access: 'runs:read',
  summary: 'Runs that began on these days: how many, how they ended, what they took; and who is waited for now',
  query: range.extend({ group_by: z.enum(['day', 'agent']).default('day') }),
  responses: {
    200: z.strictObject({
      ...days,
      total: z.strictObject(sums),
      groups: z.array(z.strictObject({ key: z.string(), ...sums })),
      waiting_for_people: z.strictObject({ approvals: z.number(), questions: z.number() }),
    }),
  },
  async handle({ caller, query: { group_by: by, ...given }, context }) {
    const asked = rangeOf(given);
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const { total, groups } = await readRunSums(tx, caller, { ...asked, by });
      const waiting = await readWaitingPeople(tx, caller, asked.agentId);
      const shown = groups.map((group) => ({ key: group.key, ...presentSums(group.sums) }));
      return { ...shownRange(asked), total: presentSums(total), groups: shown, waiting_for_people: waiting };
    });
    return { status: 200, body };
  },
});

const agents = defineRoute({
  method: 'get',
  path: '/v1/dashboard/agents',
  access: 'runs:read',
  summary: 'The same by agent',
  query: range,
  responses: {
    200: z.strictObject({
      ...days,
      agents: z.array(z.strictObject({ agent_id: z.uuid(), name: z.string().nullable(), ...sums })),
    }),
  },
  async handle({ caller, query, context }) {
    const asked = rangeOf(query);
    const found = await context.db.withTenant(caller.tenantId, (tx) => readAgentSums(tx, caller, asked));
    const shown = found.map((each) => ({ agent_id: each.id, name: each.name ?? null, ...presentSums(each.sums) }));
    return { status: 200, body: { ...shownRange(asked), agents: shown } };
  },
});

const group = z.strictObject({
  key: z.string(),
  count: z.number().describe('Runs, answers of a model, or calls of a tool.'),
  failed: z.number(),
  tokens_in: z.number(),
  tokens_out: z.number(),
  ...costs,
  avg_duration_ms: z.number().nullable(),
});

const usage = defineRoute({
  method: 'get',
  path: '/v1/dashboard/usage',
  access: 'runs:read',
  summary: 'Tokens and cost by day, agent, model or tool',
  query: range.extend({ group_by: z.enum(['day', 'agent', 'model', 'tool']).default('model') }),
  responses: {
    200: z.strictObject({
      ...days,
      group_by: z.string(),
      total: z.strictObject({ tokens_in: z.number(), tokens_out: z.number(), ...costs }),
      groups: z.array(group),
      own_calls: z
        .array(
          z.strictObject({
            purpose: z.string(),
            calls: z.number(),
            tokens_in: z.number(),
            tokens_out: z.number(),
            ...costs,
          }),
        )
        .describe(
          'What Drover asked models for itself that no run counts: titles, embeddings and the like. Not in the total.',
        ),
    }),
  },
  async handle({ caller, query: { group_by: by, ...given }, context }) {
    const asked = rangeOf(given);
    const body = await context.db.withTenant(caller.tenantId, async (tx) => {
      const { total, groups } = await readRunSums(tx, caller, {
        ...asked,
        by: by === 'day' || by === 'agent' ? by : 'all',
      });
      const own = await readOwnSums(tx, caller, asked);
      const rows = by === 'model' || by === 'tool' ? await readUsageSums(tx, caller, { ...asked, kind: by }) : [];
      const named = rows.map((row) => ({
        key: row.name,
        count: row.count,
        failed: row.failed,
        tokens_in: row.tokens_in,
        tokens_out: row.tokens_out,
        ...presentCosts(row.cost_usd, row.unpriced),
        avg_duration_ms: row.count === 0 ? null : Math.round(row.duration_ms / row.count),
      }));
      const { tokensIn: tokens_in, tokensOut: tokens_out } = total;
      return {
        ...shownRange(asked),
        group_by: by,
        total: { tokens_in, tokens_out, ...presentCosts(total.costUsd, total.unpriced) },
        groups: [...groups.map((each) => groupOf(each.key, each.sums)), ...named],
        own_calls: own.map((row) => ({ ...row, cost_usd: shownSum(row.cost_usd, row.unpriced) })),
      };
    });
    return { status: 200, body };
  },
});

function groupOf(key: string, of: RunSums): z.input<typeof group> {
  return {
    key,
    count: of.runs,
    failed: of.byStatus.failed ?? 0,
    tokens_in: of.tokensIn,
    tokens_out: of.tokensOut,
    ...presentCosts(of.costUsd, of.unpriced),
    avg_duration_ms: of.averageDurationMs,
  };
}

const queues = defineRoute({
  method: 'get',
  path: '/v1/dashboard/queues',
  access: 'runs:read',
  summary: 'Work of the tenant that waits, is under way, or waits for its time, by queue',
  responses: {
    200: z.strictObject({
      queues: z.array(
        z.strictObject({
          queue: z.string(),
          waiting: z.number(),
          active: z.number(),
          delayed: z.number(),
          oldest_waiting_at: z.iso.datetime().nullable(),
        }),
      ),
    }),
  },
  async handle({ caller, context }) {
    const rows = await context.db.withTenant(caller.tenantId, (tx) => readQueues(tx, caller));
    const shown = rows.map((row) => ({ ...row, oldest_waiting_at: row.oldest_waiting_at?.toISOString() ?? null }));
    return { status: 200, body: { queues: shown } };
  },
});

const failure = z
  .strictObject({
    agent_id: z.uuid(),
    run_id: z.uuid(),
    turn_id: z.uuid(),
    thread_id: z.uuid(),
    timestamp: z.iso.datetime(),
    action_type: z.literal('error'),
    action_data: z.strictObject({ error: z.strictObject({ code: z.string(), message: z.string() }) }),
  })
  .meta({ id: 'DashboardError' });

const errors = defineRoute({
  method: 'get',
  path: '/v1/dashboard/errors',
  access: 'runs:read',
  summary: 'Turns that have failed, newest first, as the logs of their runs have it',
  query: pageQuery().extend(range.shape),
  responses: { 200: pageFields('errors', failure) },
  async handle({ caller, query: { limit, cursor: before, ...given }, context }) {
    const rows = await context.db.withTenant(caller.tenantId, (tx) =>
      readErrors(tx, caller, { ...openRangeOf(given), before, limit: limit + 1 }),
    );
    const { items, ...page } = pageOf(rows, limit, (row) => row.id);
    return { status: 200, body: { errors: items.map(presentFailure), ...page } };
  },
});

function presentFailure(row: FailedTurnRow): z.input<typeof failure> {
  return {
    agent_id: row.agent_id,
    run_id: row.run_id,
    turn_id: row.id,
    thread_id: row.thread_id,
    timestamp: row.completed_at.toISOString(),
    action_type: 'error',
    action_data: { error: row.error },
  };
}

export const DASHBOARD_ROUTES: readonly Route[] = [runs, agents, usage, queues, errors];
