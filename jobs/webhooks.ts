/** The job `webhooks`: send this webhook its due deliveries. Carries ids only. */
import { z } from 'zod';
import { defineJob, SHORT_LOCK_MS } from './define-job.ts';

const webhookJob = z.object({ tenantId: z.uuid(), webhookId: z.uuid() });
export type WebhookJob = z.output<typeof webhookJob>;

export const WEBHOOKS = defineJob({
  name: 'webhooks',
  schema: webhookJob,
  // One job per webhook: one that still waits or runs is not sent again.
  id: ({ webhookId }: WebhookJob) => webhookId,
  // They mostly wait for others; an endpoint that never answers occupies a slot for a whole attempt.
  concurrency: { embedded: 50, services: 100 },
  isRoutine: true,
  // A delivery has a lease of its own in the database.
  mostLockMs: SHORT_LOCK_MS,
});
