/** What processes die of: a run that has lost leases at one place again and again. */
import type { NewEvent } from './events.ts';
import { LIMITS } from './limits.ts';

/** How that ends which no process has survived. */
export const LEASES_LOST = {
  code: 'leases_lost',
  message: `The processes that drove the run were lost at this step ${LIMITS.lostLeases} times in a row.`,
} as const;

/** Whether so many leases were lost since the run's log was last extended that another process would be lost as well. */
export function isPerilous({ lost_leases: lost = 0 }: { lost_leases?: number | undefined }): boolean {
  return lost >= LIMITS.lostLeases;
}

/**
 * Whether not even those processes have survived that were only to fail it: they die of loading it. So it has to fail unread.
 */
export function isDeadlyToLoad({ lost_leases: lost = 0 }: { lost_leases?: number | undefined }): boolean {
  return lost >= LIMITS.lostLeases + LIMITS.suspectLeases;
}

/**
 * Whether events bring their run further, so that it is at another place. Model calls of Drover's own (verdicts, summaries, plans)
 * do not: whoever repeats one after a death logs it anew.
 */
export function areProgress(events: readonly NewEvent[]): boolean {
  return !events.every(isOfOwnCall);
}

function isOfOwnCall(event: NewEvent): boolean {
  switch (event.type) {
    case 'model.called':
      return typeof event.payload.tool_choice === 'object';
    case 'model.responded':
    case 'model.failed':
      return event.payload.tool !== undefined;
    case 'run.status_changed':
      return event.payload.to === 'reflecting';
    default:
      return false;
  }
}
