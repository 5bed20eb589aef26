import { digestOf } from '../../core/ids.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';

/**
 * A message that is said once: a client that was cut off posts it again, with the id that it has given it, and finds the turn
 * that the first one began; with `after`, the one that was begun after that turn. A client that counts its messages anew may use
 * an id for another text, which is another message.
 */
export function saidOnce(
  idempotency: IdempotentRequest,
  {
    key,
    ...asked
  }: { key: string | undefined; thread: string; message: { id: string; input: object }; after?: string },
): IdempotentRequest {
  return { ...idempotency, key: key ?? digestOf(asked), body: asked };
}
