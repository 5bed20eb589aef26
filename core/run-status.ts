/** Statuses of a run (docs/design/engine.md). */
export const RUN_STATUSES = [
  'created',
  'initializing',
  'planning',
  'executing',
  'awaiting_tool',
  'awaiting_human',
  'reflecting',
  'completed',
  'failed',
  'cancelled',
] as const;
export type RunStatus = (typeof RUN_STATUSES)[number];
