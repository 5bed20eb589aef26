/** A call from outside under an unguessable address: the payload of the one wait that the address was made for. */
import { notFound } from '../../core/errors.ts';
import { sha256 } from '../../core/ids.ts';
import { findWaitByToken } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';
import { postSignal } from './post-signal.ts';

/** `isNew` is false for a repeated one. Throws 404 for an unknown token, 409 if nothing waits for it any more. */
export async function receiveWebhook(context: Context, token: string, payload: unknown): Promise<{ isNew: boolean }> {
  const wait = await findWaitByToken(context.db, sha256(token));
  if (!wait) throw notFound('The webhook');
  const { tenant_id: tenantId, run_id: runId, id, name } = wait;
  const signal = { type: 'webhook' as const, name: name ?? undefined, payload };
  return postSignal(context, { tenantId, runId, id: `webhook ${id}`, waitId: id, ...signal });
}
