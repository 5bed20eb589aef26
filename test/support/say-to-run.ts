import { newId } from '../../lib/new-id.ts';
import { lockRun } from '../../db/runs.ts';
import { queueMessageIn, type WaitingMessage } from '../../modules/runs/message-queue.ts';
import type { Engine } from './engine.ts';

/** Says something while a turn of the run is open, as a front end does; answers the message's id. */
export async function sayToRun(
  { context, tenantId }: Pick<Engine, 'context' | 'tenantId'>,
  runId: string,
  said: Pick<WaitingMessage, 'mode' | 'input'>,
): Promise<string> {
  const message = { ...said, message_id: newId() };
  await context.db.withTenant(tenantId, async (tx) => {
    await lockRun(tx, runId);
    await queueMessageIn(tx, { tenantId, runId, message });
  });
  return message.message_id;
}
