/** Receives webhooks: a request to an unguessable address is the payload for the wait that the address was made for. */
import { notFound } from '../../core/errors.ts';
import { sha256 } from '../../core/ids.ts';
import { webhookSignalId } from '../../core/waits.ts';
import { findWaitByToken, type WaitRow } from '../../db/waits.ts';
import type { Context } from '../governance/context.ts';
import { postSignal } from './post-signal.ts';

/** Throws 404 for an unknown token. */
export async function requireWebhook(context: Pick<Context, 'db'>, token: string): Promise<void> {
  await findWebhook(context, token);
}

/** `isNew` is false for repetitions. Throws 404 for an unknown token, 409 if nothing waits for it any more. */
export async function receiveWebhook(
  context: Context,
  token: string,
  { payload, replaced }: { payload: unknown; replaced: number | undefined },
): Promise<{ isNew: boolean }> {
  const { tenant_id: tenantId, run_id: runId, id, name } = await findWebhook(context, token);
  const signal = { type: 'webhook' as const, name: name ?? undefined, payload, replaced };
  return postSignal(context, { tenantId, runId, id: webhookSignalId(id), waitId: id, ...signal });
}

async function findWebhook({ db }: Pick<Context, 'db'>, token: string): Promise<WaitRow> {
  const wait = await findWaitByToken(db, sha256(token));
  if (!wait) throw notFound('The webhook');
  return wait;
}
