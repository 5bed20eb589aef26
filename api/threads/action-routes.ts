/** A run's log as the actions of docs/threads.md. */
import { z } from 'zod';
import { ACTION_TYPES, readActions, type LoggedAction } from '../../modules/conversations/action-log.ts';
import { encodeCursor, integerParam, listParam, pageFields, pageQuery } from '../kit/paging.ts';
import type { Route } from '../kit/route.ts';
import { defineRunRoutes, runParams } from '../runs/run-access.ts';

const MAX_SEQ = 999_999_999;
/** At most so many actions per event. */
const PLACES = 10;

const action = z
  .object({
    log_id: z.number().describe('Rises with the log; not without gaps.'),
    seq: z.number().describe('The event that it stands for.'),
    agent_id: z.uuid(),
    run_id: z.uuid(),
    turn_id: z.uuid().nullable(),
    timestamp: z.iso.datetime(),
    step_number: z.number().describe('0 before the first model call of its turn; counted over all turns of the run.'),
    action_type: z.enum(ACTION_TYPES),
    action_data: z.record(z.string(), z.unknown()),
    messages_snapshot: z.array(z.unknown()).optional(),
    messages_count: z.number().optional(),
    estimated_tokens: z.number().optional(),
    duration_ms: z.number().optional(),
  })
  .meta({ id: 'RunAction' });

export const ACTION_ROUTES: readonly Route[] = defineRunRoutes({
  method: 'get',
  path: '/log',
  access: 'runs:read',
  summary: 'What a run has done, action by action; `after` is the `seq` of an event, exclusive',
  params: runParams,
  query: pageQuery(z.int32()).extend({
    after: integerParam({ min: 0, max: MAX_SEQ }).optional(),
    types: listParam(z.enum(ACTION_TYPES)).optional(),
    messages_snapshot: z
      .enum(['true', 'false'])
      .optional()
      .describe('Shows what of the conversation each model call was sent.'),
  }),
  responses: { 200: pageFields('actions', action) },
  async handle({ caller, params, query, context }) {
    const { agentId, actions, next } = await context.db.withTenant(caller.tenantId, (tx) =>
      readActions(tx, caller, {
        path: params,
        after: query.cursor ?? query.after ?? 0,
        limit: query.limit,
        types: query.types,
        snapshots: query.messages_snapshot === 'true',
      }),
    );
    const shown = actions.map((each) => present(each, { agent_id: agentId, run_id: params.run }));
    return { status: 200, body: { actions: shown, ...(next !== undefined && { next_cursor: encodeCursor(next) }) } };
  },
});

function present(
  { event, place, step, type, data, ...more }: LoggedAction,
  ids: { agent_id: string; run_id: string },
): z.input<typeof action> {
  return {
    log_id: event.seq * PLACES + place,
    seq: event.seq,
    ...ids,
    turn_id: event.turn_id,
    timestamp: (more.at ?? event.occurred_at).toISOString(),
    step_number: step,
    action_type: type,
    action_data: data,
    ...(more.messages && { messages_snapshot: more.messages }),
    ...(more.messagesCount !== undefined && { messages_count: more.messagesCount }),
    ...(more.estimatedTokens !== undefined && { estimated_tokens: more.estimatedTokens }),
    ...(more.durationMs !== undefined && { duration_ms: more.durationMs }),
  };
}
