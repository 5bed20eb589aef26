import { digestOf } from '../../core/ids.ts';
import type { IdempotentRequest } from '../../modules/tenants/idempotency.ts';

/**
 * Makes a message be said once: a client that was cut off posts it again under the same id, and gets the turn that it
 * began, or with `after`, the one begun after that turn. An id reused for another text is another message, since
 * clients may start counting anew.
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
