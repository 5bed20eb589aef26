import { OUT_OF_BUDGET } from '../../../core/events.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** Denies calls once a budget is used up, whatever a rule allows: the run ends with what it has. */
export function judgeBudget({ usedUp }: GatedCall): StageVerdict | undefined {
  if (!usedUp) return undefined;
  const which = usedUp.name === null ? "run's budget" : `budget "${usedUp.name}"`;
  return { kind: 'deny', code: OUT_OF_BUDGET, message: `The ${which} is used up; the call was not made.` };
}
