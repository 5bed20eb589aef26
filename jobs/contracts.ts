/** The contracts of all jobs. A worker loads each one's handler from the file of its name in `workers/handlers/`. */
import type { AnyJob } from './define-job.ts';
import { CONSOLIDATION } from './consolidation.ts';
import { MAINTENANCE } from './maintenance.ts';
import { SUBTASKS } from './subtasks.ts';
import { TITLES } from './titles.ts';
import { TOOL_CALLS } from './tool-calls.ts';
import { TURNS } from './turns.ts';
import { WEBHOOKS } from './webhooks.ts';

export const CONTRACTS = [
  TURNS,
  TOOL_CALLS,
  SUBTASKS,
  MAINTENANCE,
  WEBHOOKS,
  CONSOLIDATION,
  TITLES,
] as const satisfies readonly AnyJob[];

export type QueueName = (typeof CONTRACTS)[number]['name'];
