/** `drover agents`: lists and shows agents. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { connected, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printFields, printJson, printNext, printTable } from './print.ts';

interface Agent {
  id: string;
  name: string;
  version: string;
  status: string;
  suspended: boolean;
  description?: string;
  tools?: string[];
  llm_config?: { default_model?: string };
  created_at: string;
  updated_at: string;
}

/** Adds the commands. */
export function addAgents(program: Command): void {
  const agents = program.command('agents').description('agents: which there are, and what each is made of');
  withPage(agents.command('list')).description('list agents, newest first').action(list);
  withPlace(agents.command('show'))
    .description('show an agent, with --json its whole definition')
    .argument('[agent]', 'its id or name; may be left out where there is one agent')
    .action(show);
}

async function list({ limit, cursor, ...options }: Shared & Page): Promise<void> {
  const query = { limit: String(limit), cursor };
  const answer = await connected(options, (client) =>
    client.get<{ agents: Agent[]; next_cursor?: string }>('/v1/agents', query),
  );
  if (options.json) return printJson(answer);
  if (answer.agents.length === 0) return print('No agents.');
  printTable(
    ['ID', 'NAME', 'VERSION', 'STATUS', 'CREATED'],
    answer.agents.map((agent) => [agent.id, line(agent.name, 40), agent.version, statusOf(agent), agent.created_at]),
  );
  printNext(answer.next_cursor);
}

async function show(agent: string | undefined, options: Shared): Promise<void> {
  const found = await connected(options, async (client) =>
    client.get<Agent>(`/v1/agents/${await agentOf(client, agent)}`),
  );
  if (options.json) return printJson(found);
  printFields({
    agent: found.id,
    name: found.name,
    version: found.version,
    status: statusOf(found),
    description: found.description,
    model: found.llm_config?.default_model,
    tools: found.tools?.join(', '),
    created: found.created_at,
    changed: found.updated_at,
  });
}

const statusOf = ({ status, suspended }: Agent) => (suspended ? `${status}, suspended` : status);
