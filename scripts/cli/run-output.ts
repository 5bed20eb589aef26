/** `drover runs output`: prints the whole output of a tool call. */
import type { Command } from 'commander';
import { connected, id, withPlace, type Shared } from './options.ts';
import { plain, pretty, print, printJson } from './print.ts';

/** Adds the command. */
export function addRunOutput(runs: Command): void {
  withPlace(runs.command('output'))
    .description('print the whole output of a tool call; `follow` shows only the size of a large one')
    .argument('<call>', 'the tool call', id)
    .action(async (call: string, options: Shared) => {
      const path = `/v1/tool-calls/${call}/output`;
      const found = await connected(options, (client) => client.get<{ output: unknown }>(path));
      if (options.json) return printJson(found);
      const { output } = found;
      print(typeof output === 'string' ? plain(output) : pretty(output));
    });
}
