/** Heartbeats of agents. */
import { z } from 'zod';
import { beat } from '../../modules/agents/beat.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { agent } from './schemas.ts';

const heartbeat = defineRoute({
  method: 'post',
  path: '/v1/agents/:id/heartbeat',
  access: 'agents:write',
  summary: 'Say that an agent is there: who has said so once has to go on',
  params: z.strictObject({ id: agentIdParam }),
  body: z.strictObject({}),
  responses: {
    200: z
      .strictObject({
        id: z.uuid(),
        agent_id: z.uuid(),
        status: agent.shape.status,
        heartbeats: z.int().describe('In a row since the agent was offline, as long as it is.'),
        last_heartbeat_at: z.iso.datetime(),
        timeout_ms: z.int().describe('How long the next one may take.'),
      })
      .meta({ id: 'Heartbeat' }),
  },
  async handle({ caller, params: { id }, context }) {
    const timeoutMs = context.config.heartbeatTimeoutMs;
    const { status, heartbeats, at } = await context.db.withTenant(caller.tenantId, (tx) =>
      beat(tx, caller, { id, timeoutMs }),
    );
    const body = { id, agent_id: id, status, heartbeats, last_heartbeat_at: at.toISOString(), timeout_ms: timeoutMs };
    return { status: 200, body };
  },
});

export const HEARTBEAT_ROUTES: readonly Route[] = [heartbeat];
