import { z } from 'zod';
import { RUN_STATUSES } from '../../core/events.ts';
import { cancelRuns } from '../../modules/runs/cancel-runs.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { idParam } from '../kit/validate.ts';

const status = z.enum(RUN_STATUSES);
const time = z.iso.datetime({ offset: true });

const filter = z
  .strictObject({
    status: z.union([status, z.array(status).min(1)]).optional(),
    agent_id: idParam.optional(),
    thread_id: idParam.optional(),
    created_after: time.optional(),
    created_before: time.optional(),
  })
  // Whoever forgets the filter does not mean every run there is.
  .refine(
    (given) => Object.values(given).some((value) => value !== undefined),
    'names nothing: give at least one field',
  );

const cancelMany = defineRoute({
  method: 'post',
  path: '/v1/runs/cancel',
  access: 'runs:write',
  summary: 'Cancel the unfinished runs that fit a filter, so many at a time',
  body: z.strictObject({ filter, reason: z.string().max(1000).optional() }),
  responses: {
    200: z.strictObject({
      cancelled: z.int(),
      run_ids: z.array(z.uuid()),
      more: z.boolean().describe('Others fit too: ask again.'),
    }),
  },
  async handle({ caller, body, context }) {
    const { status: wanted, agent_id, thread_id, created_after, created_before } = body.filter;
    const asked = {
      filter: {
        status: wanted === undefined ? undefined : [wanted].flat(),
        agentId: agent_id,
        threadId: thread_id,
        createdAfter: created_after,
        createdBefore: created_before,
      },
      reason: body.reason,
    };
    return { status: 200, body: await cancelRuns(context, caller, asked) };
  },
});

export const CANCEL_MANY_ROUTES: readonly Route[] = [cancelMany];
