/** Images and files that are not sent any more. */
import { z } from 'zod';

/** Messages, by their ordinals, whose images and files are left out: a provider has refused a request for one of them. */
export const refusedFiles = z.object({ from: z.int().min(0), until: z.int().min(0) });
export type RefusedFiles = z.output<typeof refusedFiles>;
