/** `drover graphs`: shows the graphs of agents. */
import type { Command } from 'commander';
import { toMermaid } from '../../core/graph/mermaid.ts';
import { agentOf } from './named.ts';
import { connected, withPlace, type Shared } from './options.ts';
import { plain, print, printJson } from './print.ts';

type Graph = Parameters<typeof toMermaid>[0];

/** Adds the commands. */
export function addGraphs(program: Command): void {
  const graphs = program.command('graphs').description('the graphs that agents follow');
  withPlace(graphs.command('show'))
    .description("show an agent's graph as a picture in Mermaid, or with --json as it was registered")
    .argument('[agent]', 'its id or name; may be left out where there is one agent')
    .option('--version <version>', 'as an earlier version had it')
    .action(show);
}

async function show(agent: string | undefined, options: Shared & { version?: string }): Promise<void> {
  const { version } = options;
  const graph = await connected(options, async (client) =>
    client.get<Graph>(`/v1/agents/${await agentOf(client, agent)}/graph`, { version }),
  );
  if (options.json) printJson(graph);
  else print(plain(toMermaid(graph).trimEnd()));
}
