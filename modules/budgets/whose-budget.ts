import { findStoppingBudget } from '../../db/budgets.ts';
import { NO_BUDGET } from '../../core/decide.ts';
import { OUT_OF_BUDGET } from '../../core/events.ts';
import type { Tx } from '../../db/database.ts';

interface StoppedChild {
  runId: string;
  parentId: string;
  /** How its parent is called in the message. */
  parent: string;
  /** The error of a child that has said nothing. */
  error: { code: string; message: string } | null;
}

/** Says whose budget stopped a child run (its task's, a run's above it, or a configured one), and what it lacked if that is known. */
export async function whoseBudget(tx: Tx, child: StoppedChild): Promise<string> {
  const { error, runId } = child;
  const budget = await findStoppingBudget(tx, runId);
  const lack = error?.code === OUT_OF_BUDGET && error.message !== NO_BUDGET.message ? error.message : undefined;
  if (budget?.key === 'run')
    return lack ? `The tokens of the task do not suffice. ${lack}` : 'The tokens of the task are used up.';
  const which = budget ? nameOf(budget, child) : 'budget';
  if (budget?.was_asked) return `Nobody has let it go on beyond the soft limit of the ${which}.`;
  return lack ? `The ${which} does not suffice. ${lack}` : `The ${which} is used up.`;
}

function nameOf({ key, name }: { key: string; name: string | null }, { parentId, parent }: StoppedChild): string {
  const above = /^run:(.*)/.exec(key)?.[1];
  if (above !== undefined) return `budget of ${above === parentId ? parent : `the run ${above} above it`}`;
  return name === null ? 'budget' : `budget "${name}"`;
}
