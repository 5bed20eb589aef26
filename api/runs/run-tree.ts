/** A run with all runs below it. */
import { z } from 'zod';
import type { RunView } from '../../modules/runs/read-runs.ts';
import { presentRun, run } from './schemas.ts';

const node = run.extend({
  get children() {
    return z.array(node);
  },
});

export const runTree = node
  .extend({ more: z.boolean().describe('There are runs that are not shown.') })
  .meta({ id: 'RunTree' });

type Node = z.input<typeof run> & { children: Node[] };

/** Nests runs by parent; the first one is the root. */
export function presentTree({ runs, more }: { runs: readonly RunView[]; more: boolean }): Node & { more: boolean } {
  const nodes = new Map(runs.map((row): [string, Node] => [row.id, { ...presentRun(row), children: [] }]));
  const [root] = runs;
  for (const row of runs) {
    const own = nodes.get(row.id);
    const parent = row.id === root?.id ? undefined : nodes.get(row.parent_run_id ?? '');
    if (own && parent) parent.children.push(own);
  }
  const top = nodes.get(root?.id ?? '');
  if (!top) throw new Error('a tree without a root');
  return { ...top, more };
}
