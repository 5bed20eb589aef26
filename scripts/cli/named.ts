/** Finds the agent or team that a command is about. */
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { line } from './print.ts';
import { isUuid } from '../../lib/is-uuid.ts';

interface Named {
  id: string;
  name: string;
  status?: string;
}

/** A kind of named thing, and its list in the API. */
interface Kind {
  word: string;
  list: 'agents' | 'teams';
}

const AGENT: Kind = { word: 'agent', list: 'agents' };
const TEAM: Kind = { word: 'team', list: 'teams' };

/** The id of the agent with this id, name or external id (`ext:…`); without one, of the only agent. */
export async function agentOf(client: Client, given: string | undefined): Promise<string> {
  if (given?.startsWith('ext:')) return (await client.get<Named>(`/v1/agents/${encodeURIComponent(given)}`)).id;
  return idOf(client, AGENT, given);
}

/** Like `agentOf`, for several. */
export async function agentsOf(client: Client, given: readonly string[] | undefined): Promise<string[] | undefined> {
  return given && Promise.all(given.map((each) => agentOf(client, each)));
}

/** The id of the team with this id or name. */
export async function teamOf(client: Client, given: string): Promise<string> {
  return idOf(client, TEAM, given);
}

async function idOf(client: Client, { word, list }: Kind, given: string | undefined): Promise<string> {
  if (given !== undefined && isUuid(given)) return given.toLowerCase();
  const all = await listAll(client, list);
  const fitting = given === undefined ? all : all.filter(({ name }) => name === given);
  const [found] = fitting;
  if (found && fitting.length === 1) return found.id;
  if (all.length === 0) throw new CommandError(EXIT.refused, `The workspace has no ${word}s.`);
  const there = (fitting.length > 0 ? fitting : all).slice(0, SHOWN);
  const why =
    given === undefined
      ? `The workspace has several ${word}s; an id or a name says which:`
      : fitting.length === 0
        ? `No ${word} is named ${line(given)}. There are:`
        : `Several ${word}s are named ${line(given)}; an id says which:`;
  throw new CommandError(EXIT.usage, [why, ...there.map(({ id, name }) => `  ${id}  ${line(name, 60)}`)].join('\n'));
}

/** The most names in a message. */
const SHOWN = 20;

async function listAll(client: Client, list: Kind['list']): Promise<Named[]> {
  const found: Named[] = [];
  let cursor: string | undefined;
  do {
    type Listed = Partial<Record<Kind['list'], Named[]>> & { next_cursor?: string };
    const page = await client.get<Listed>(`/v1/${list}`, { limit: '200', cursor });
    // Deprecated agents get no work; others may be busy or away for a while.
    found.push(...(page[list] ?? []).filter(({ status }) => status !== 'deprecated'));
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return found;
}
