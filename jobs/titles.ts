/** The job `titles`: give this thread its title. Carries ids only. */
import { z } from 'zod';
import { defineJob } from './define-job.ts';

const titleJob = z.object({ tenantId: z.uuid(), threadId: z.uuid() });
export type TitleJob = z.output<typeof titleJob>;

export const TITLES = defineJob({
  name: 'titles',
  schema: titleJob,
  // One that still waits or runs is not sent again; a lost one is due again after a while (`due_titles`).
  id: ({ threadId }: TitleJob) => threadId,
  concurrency: { embedded: 5, services: 10 },
  isRoutine: true,
});
