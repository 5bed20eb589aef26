/** `drover teams`: shows which agents work together, and how. */
import type { Command } from 'commander';
import { teamOf } from './named.ts';
import { connected, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printFields, printJson, printNext, printTable } from './print.ts';

interface Team {
  id: string;
  name: string;
  orchestration_pattern: string;
  supervisor_agent_id: string | null;
  members: { agent_id: string; role: string; priority: number }[];
  created_at: string;
}

/** Adds the commands. */
export function addTeams(program: Command): void {
  const teams = program.command('teams').description('teams of agents, for workflows run --team');
  withPage(teams.command('list')).description('list teams, newest first').action(list);
  withPlace(teams.command('show'))
    .description('show a team with its members')
    .argument('<team>', 'the team, by id or name')
    .action(show);
}

async function list({ limit, cursor, ...options }: Shared & Page): Promise<void> {
  const query = { limit: String(limit), cursor };
  const answer = await connected(options, (client) =>
    client.get<{ teams: Team[]; next_cursor?: string }>('/v1/teams', query),
  );
  if (options.json) return printJson(answer);
  if (answer.teams.length === 0) return print('No teams.');
  printTable(
    ['ID', 'NAME', 'PATTERN', 'MEMBERS', 'CREATED'],
    answer.teams.map((team) => {
      return [team.id, line(team.name, 40), team.orchestration_pattern, String(team.members.length), team.created_at];
    }),
  );
  printNext(answer.next_cursor);
}

async function show(team: string, options: Shared): Promise<void> {
  const found = await connected(options, async (client) => client.get<Team>(`/v1/teams/${await teamOf(client, team)}`));
  if (options.json) return printJson(found);
  printFields({
    team: found.id,
    name: found.name,
    pattern: found.orchestration_pattern,
    supervisor: found.supervisor_agent_id,
    created: found.created_at,
  });
  if (found.members.length === 0) return;
  print();
  printTable(
    ['AGENT', 'ROLE', 'PRIORITY'],
    found.members.map(({ agent_id: agent, role, priority }) => [agent, line(role, 40), String(priority)]),
  );
}
