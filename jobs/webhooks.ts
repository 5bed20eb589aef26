/** The job `webhooks`: deliver what is due to this webhook. Carries ids only. */
import { z } from 'zod';
import { defineJob } from './define-job.ts';

const webhookJob = z.object({ tenantId: z.uuid(), webhookId: z.uuid() });
export type WebhookJob = z.output<typeof webhookJob>;

export const WEBHOOKS = defineJob({
  name: 'webhooks',
  schema: webhookJob,
  // One job for each webhook: what still waits or runs is not sent again.
  id: ({ webhookId }: WebhookJob) => webhookId,
  // They wait for others most of the time, and an endpoint that never answers has its slot for all of an attempt.
  concurrency: { embedded: 50, services: 100 },
  isRoutine: true,
});
