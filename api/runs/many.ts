/** Cancels or retries many runs by a filter. */
import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import { cancelRuns } from '../../modules/runs/cancel-runs.ts';
import { retryRuns } from '../../modules/workflows/retry-runs.ts';
import { agentIdParam, threadIdParam } from '../kit/external-ids.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { timeTextParam } from '../kit/validate.ts';

const more = z.boolean().describe('Others fit too: ask again.');
const dryRun = z.boolean().optional().describe('Only says which runs fit.');
const matching = z.strictObject({ matching: z.int(), run_ids: z.array(z.uuid()), more });

const fields = {
  agent_id: agentIdParam.optional(),
  thread_id: threadIdParam.optional(),
  created_after: timeTextParam.optional(),
  created_before: timeTextParam.optional(),
};
const oneOrMore = <T extends z.ZodType>(value: T) => z.union([value, z.array(value).min(1)]).optional();

/** A forgotten filter must not mean all runs. */
const namesSomething = (given: object) => Object.values(given).some((value) => value !== undefined);
const NAMES_NOTHING = 'names nothing: give at least one field';

const cancelFilter = z
  .strictObject({ status: oneOrMore(z.enum(RUN_STATUSES)), ...fields })
  .refine(namesSomething, NAMES_NOTHING);

const retryFilter = z
  .strictObject({
    status: oneOrMore(z.enum(['failed', 'cancelled'])).describe('`failed` where it is not given.'),
    error_code: z.string().min(1).max(100).optional().describe('As in the `error` of a run.'),
    ...fields,
  })
  .refine(namesSomething, NAMES_NOTHING);

type Fields = { [K in keyof typeof fields]?: z.output<(typeof fields)[K]> };

function asked<S>(filter: Fields & { status?: S | S[] | undefined }) {
  const { status, agent_id, thread_id, created_after, created_before } = filter;
  return {
    status: status === undefined ? undefined : ([status].flat() as S[]),
    agentId: agent_id,
    threadId: thread_id,
    createdAfter: created_after,
    createdBefore: created_before,
  };
}

const cancelMany = defineRoute({
  method: 'post',
  path: '/v1/runs/cancel',
  access: 'runs:write',
  summary: 'Cancel the unfinished runs that fit a filter, so many at a time',
  body: z.strictObject({ filter: cancelFilter, reason: z.string().max(1000).optional(), dry_run: dryRun }),
  responses: {
    200: z.union([z.strictObject({ cancelled: z.int(), run_ids: z.array(z.uuid()), more }), matching]),
  },
  async handle({ caller, body, context }) {
    const { filter, reason, dry_run: isDryRun } = body;
    return { status: 200, body: await cancelRuns(context, caller, { filter: asked(filter), reason, isDryRun }) };
  },
});

const retryMany = defineRoute({
  method: 'post',
  path: '/v1/runs/retry',
  access: 'runs:write',
  summary: 'Retry the failed runs that fit a filter, so many at a time; those that were retried already are skipped',
  idempotent: true,
  body: z.strictObject({ filter: retryFilter, dry_run: dryRun }),
  responses: {
    200: z.union([
      z.strictObject({
        retried: z.int(),
        runs: z.array(z.strictObject({ run_id: z.uuid(), new_run_id: z.uuid() })),
        more,
      }),
      matching,
    ]),
  },
  async handle({ caller, body, context, ctx, idempotency }) {
    const { filter, dry_run: isDryRun } = body;
    return retryRuns(context, caller, {
      filter: { ...asked(filter), errorCode: filter.error_code },
      isDryRun,
      traceparent: ctx.state.traceparent,
      idempotency,
    });
  },
});

export const MANY_RUNS_ROUTES: readonly Route[] = [cancelMany, retryMany];
