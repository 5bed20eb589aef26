/** `GET /acp/{agent}`: the Agent Client Protocol over a WebSocket. */
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { requireAgent } from '../../modules/sessions/client-thread.ts';
import { defineRoute, type Route } from '../kit/route.ts';
import { agentIdParam } from '../kit/external-ids.ts';
import { watchCaller } from '../kit/watch-caller.ts';
import { serveAcp } from './acp-connection.ts';

/** Closed because the key is no longer valid. */
const KEY_ENDED = 4001;

const connect = defineRoute({
  method: 'get',
  path: '/acp/:agent',
  access: 'runs:write',
  threadToken: { scope: 'answer' },
  summary: 'Talk with an agent over the Agent Client Protocol, on a WebSocket',
  params: z.strictObject({ agent: agentIdParam }),
  responses: { 101: 'empty' },
  async handle({ caller, params, context, app, ctx }) {
    const { tenantId } = caller;
    const agentId = params.agent;
    await context.db.withTenant(tenantId, (tx) => requireAgent(tx, { caller, agentId }));
    const { sockets, counter, authenticator } = app;
    if (!sockets?.canOpen(ctx.req)) {
      throw new DroverError(
        'upgrade-required',
        426,
        'This is a WebSocket: the request must ask for an upgrade to one.',
      );
    }
    sockets.open(ctx.req, { ...caller, messageBytes: LIMITS.acpMessageBytes }, (open) => {
      const { check, stop } = watchCaller({ context, authenticator }, caller, () =>
        open.socket.close(KEY_ENDED, 'The key was revoked or has expired.'),
      );
      open.socket.once('close', stop);
      serveAcp(context, { open, caller, agentId, counter, check });
    });
    ctx.respond = false;
    return { status: 101 };
  },
});

export const ACP_ROUTES: readonly Route[] = [connect];
