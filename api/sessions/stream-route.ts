/** `GET /agent/stream/{id}`: a session over a WebSocket (docs/sessions.md, Watching). */
import { z } from 'zod';
import { DroverError } from '../../core/errors.ts';
import { requestRates } from '../../core/rate-limits.ts';
import { readSessionPosition } from '../../modules/sessions/stream-session.ts';
import { countAgainst } from '../kit/rate-limit.ts';
import { defineRoute } from '../kit/route.ts';
import { threadIdParam } from '../kit/external-ids.ts';
import { watchCaller } from '../kit/watch-caller.ts';
import { watchSession } from './session-socket.ts';

/** Closed because the key is no longer valid. */
const KEY_ENDED = 4001;

/**
 * Upgrades with 101 and streams. Refusals come before the upgrade, as plain answers. The URL takes no query, so that it
 * holds no key.
 */
export const streamRoute = defineRoute({
  method: 'get',
  path: '/agent/stream/:id',
  access: 'runs:read',
  threadToken: { scope: 'read', param: 'id' },
  summary: 'Watch a session over a WebSocket',
  params: z.strictObject({ id: threadIdParam }),
  responses: { 101: 'empty' },
  async handle({ caller, params, context, app, ctx }) {
    const { tenantId } = caller;
    // Before the upgrade: events after the connection opens must be shown.
    const after = await readSessionPosition(context, caller, params.id);
    const { sockets, counter, authenticator } = app;
    if (!sockets?.canOpen(ctx.req)) {
      throw new DroverError(
        'upgrade-required',
        426,
        'This is a WebSocket: the request must ask for an upgrade to one.',
      );
    }
    sockets.open(ctx.req, caller, (open) => {
      const { check, stop } = watchCaller({ context, authenticator }, caller, () =>
        open.socket.close(KEY_ENDED, 'The key was revoked or has expired.'),
      );
      open.socket.once('close', stop);
      const count = async () => {
        await check();
        await countAgainst(counter, requestRates(caller));
      };
      watchSession(context, { open, session: { tenantId, sessionId: params.id }, after, count });
    });
    ctx.respond = false;
    return { status: 101 };
  },
});
