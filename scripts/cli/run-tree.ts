/** `drover runs tree`: shows a run and all runs below it. */
import type { Command } from 'commander';
import { connected, id, withPlace, type Shared } from './options.ts';
import { line, print, printJson, treeLines, type Branch } from './print.ts';

interface Node {
  id: string;
  kind: string;
  status: string;
  steps: number;
  usage: { tokens_in: number; tokens_out: number; cost_usd: number | null };
  error?: { code: string; message: string };
  children: Node[];
}

/** Adds the command. */
export function addRunTree(runs: Command): void {
  withPlace(runs.command('tree'))
    .description('show a run with its children, and theirs: how each stands and what it has cost')
    .argument('<id>', 'the run', id)
    .action(async (run: string, options: Shared) => {
      const found = await connected(options, (client) => client.get<Node & { more: boolean }>(`/v1/runs/${run}/tree`));
      if (options.json) return printJson(found);
      for (const each of treeLines(toBranch(found))) print(each);
      if (found.more) print('There are runs that are not shown.');
    });
}

function toBranch({ children, usage, ...run }: Node): Branch {
  const tokens = `${usage.tokens_in + usage.tokens_out} tokens`;
  const cost = usage.cost_usd === null ? [] : [`$${usage.cost_usd}`];
  const spent = [`${run.steps} steps`, tokens, ...cost].join(', ');
  const fault = run.error ? `  ${line(`${run.error.code}: ${run.error.message}`, 80)}` : '';
  return { text: `${run.id}  ${run.kind}  ${run.status}  ${spent}${fault}`, children: children.map(toBranch) };
}
