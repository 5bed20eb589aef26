import { OUT_OF_BUDGET } from '../../../core/events.ts';
import type { GatedCall, StageVerdict } from './stage.ts';

/** Whose budget is used up makes no more calls, whatever a rule has allowed: the run stops with what it has. */
export function judgeBudget({ usedUp }: GatedCall): StageVerdict | undefined {
  if (!usedUp) return undefined;
  const which = usedUp.name === null ? "run's budget" : `budget "${usedUp.name}"`;
  return { kind: 'deny', code: OUT_OF_BUDGET, message: `The ${which} is used up; the call was not made.` };
}
