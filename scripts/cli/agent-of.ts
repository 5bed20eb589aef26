/** Which agent a command is about. */
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { line } from './print.ts';
import { isUuid } from '../../lib/is-uuid.ts';

interface Agent {
  id: string;
  name: string;
}

/** The id of the agent with this id, name or external id (`ext:…`); without one that of the only agent there is. */
export async function agentOf(client: Client, given: string | undefined): Promise<string> {
  if (given !== undefined && isUuid(given)) return given.toLowerCase();
  if (given?.startsWith('ext:')) return (await client.get<Agent>(`/v1/agents/${encodeURIComponent(given)}`)).id;
  const agents = await activeAgents(client);
  const fitting = given === undefined ? agents : agents.filter(({ name }) => name === given);
  const [found] = fitting;
  if (found && fitting.length === 1) return found.id;
  if (agents.length === 0) throw new CommandError(EXIT.refused, 'The workspace has no agents.');
  const there = (fitting.length > 0 ? fitting : agents).slice(0, SHOWN);
  const why =
    given === undefined
      ? 'The workspace has several agents; an id or a name says which:'
      : fitting.length === 0
        ? `No agent is named ${line(given)}. There are:`
        : `Several agents are named ${line(given)}; an id says which:`;
  throw new CommandError(EXIT.usage, [why, ...there.map(({ id, name }) => `  ${id}  ${line(name, 60)}`)].join('\n'));
}

/** In a message. */
const SHOWN = 20;

async function activeAgents(client: Client): Promise<Agent[]> {
  const found: Agent[] = [];
  let cursor: string | undefined;
  do {
    const query = { status: 'active', limit: '200', cursor };
    const page = await client.get<{ agents: Agent[]; next_cursor?: string }>('/v1/agents', query);
    found.push(...page.agents);
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return found;
}
