import { findStoppingBudget } from '../../db/budgets.ts';
import type { Tx } from '../../db/database.ts';

interface StoppedChild {
  runId: string;
  parentId: string;
  /** How its parent is called in the message. */
  parent: string;
}

/** Says whose budget stopped a child run: its task's, a run's above it, or a configured one. */
export async function whoseBudget(tx: Tx, child: StoppedChild): Promise<string> {
  const budget = await findStoppingBudget(tx, child.runId);
  if (budget?.key === 'run') return 'The tokens of the task are used up.';
  const which = budget ? nameOf(budget, child) : 'budget';
  return budget?.was_asked
    ? `Nobody has let it go on beyond the soft limit of the ${which}.`
    : `The ${which} is used up.`;
}

function nameOf({ key, name }: { key: string; name: string | null }, { parentId, parent }: StoppedChild): string {
  const above = /^run:(.*)/.exec(key)?.[1];
  if (above !== undefined) return `budget of ${above === parentId ? parent : `the run ${above} above it`}`;
  return name === null ? 'budget' : `budget "${name}"`;
}
