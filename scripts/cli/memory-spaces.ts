/** `drover memory spaces`: what agents share, its writers, and decisions on it. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import type { Client } from './client.ts';
import { connected, id, paged, share, whole, type Page, type Shared } from './options.ts';
import { line, pretty, print, printJson, printNext, printTable } from './print.ts';

interface Space {
  id: string;
  name: string | null;
  scope: string;
  conflict_check: string;
  created_at: string;
}

interface Fragment {
  id: string;
  content: { data?: unknown };
  version: number;
  requires_resolution: boolean;
  conflicts?: string[];
  relevance_score?: number;
}

type AsAgent = Shared & { agent?: string };

/** Adds the commands; `--agent` names the acting agent, and is optional. */
export function addSpaces(command: (name: string, about: string) => Command): void {
  paged(command('spaces', 'list the spaces that agents share, newest first')).action(list);
  command('shared', 'look for what is shared; without a question the newest')
    .argument('[query]', 'the question')
    .option('--space <space>', 'in one space', id)
    .option('--min-relevance <n>', 'from 0 to 1: nothing that fits less', share, 0.7)
    .option('--limit <n>', 'how many', whole(1, 100), 10)
    .action(search);
  command('share', 'write into a space; prints the id of the fragment')
    .argument('<space>', 'the space', id)
    .argument('<content>', 'what')
    .option('--fragment <fragment>', 'as its next version', id)
    .option('--base-version <n>', 'what was read: merged with what has been written since', whole(1, 1_000_000_000))
    .option('--expected-version <n>', 'refused at another version', whole(0, 1_000_000_000))
    .action(write);
  command('resolve', 'say what is so where a fragment has both sides of a contradiction')
    .argument('<fragment>', 'the fragment', id)
    .argument('<content>', 'what is so')
    .action(resolve);
  command('unshare', 'delete a fragment for good, with all of its versions')
    .argument('<fragment>', 'the fragment', id)
    .action(remove);
}

/** The acting agent, if named. */
async function actor(client: Client, agent: string | undefined): Promise<{ agent_id?: string }> {
  return agent === undefined ? {} : { agent_id: await agentOf(client, agent) };
}

async function list({ limit, cursor, ...options }: AsAgent & Page): Promise<void> {
  const answer = await connected(options, (client) =>
    client.get<{ spaces: Space[]; next_cursor?: string }>('/v1/memory/spaces', { limit: String(limit), cursor }),
  );
  if (options.json) return printJson(answer);
  if (answer.spaces.length === 0) return print('No spaces.');
  printTable(
    ['ID', 'NAME', 'SCOPE', 'CONFLICTS', 'CREATED'],
    answer.spaces.map((space) => {
      return [space.id, line(space.name ?? '', 40), space.scope, space.conflict_check, space.created_at];
    }),
  );
  printNext(answer.next_cursor);
}

type Searching = AsAgent & { space?: string; minRelevance: number; limit: number };

async function search(query: string | undefined, options: Searching): Promise<void> {
  const { space, minRelevance, limit } = options;
  const asked = { query, space_id: space, min_relevance: String(minRelevance), limit: String(limit) };
  const answer = await connected(options, async (client) =>
    client.get<{ fragments: Fragment[] }>('/v1/memory/search', { ...asked, ...(await actor(client, options.agent)) }),
  );
  if (options.json) return printJson(answer);
  if (answer.fragments.length === 0) return print('Nothing was found.');
  printTable(
    ['ID', 'SCORE', 'VERSION', 'STATE', 'CONTENT'],
    answer.fragments.map(({ content: { data }, relevance_score: score = 1, ...rest }) => {
      const state = rest.requires_resolution ? 'both sides' : '';
      const text = typeof data === 'string' ? data : pretty(data);
      return [rest.id, score.toFixed(2), String(rest.version), state, line(text, 80)];
    }),
  );
}

type Writing = AsAgent & { fragment?: string; baseVersion?: number; expectedVersion?: number };

async function write(space: string, content: string, options: Writing): Promise<void> {
  const { fragment, baseVersion, expectedVersion } = options;
  const versions = { fragment_id: fragment, base_version: baseVersion, expected_version: expectedVersion };
  const made = await connected(options, async (client) =>
    client.post<Fragment>('/v1/memory/write', {
      space_id: space,
      content,
      ...versions,
      ...(await actor(client, options.agent)),
    }),
  );
  if (options.json) return printJson(made);
  print(made.id);
  if (made.requires_resolution) print(`version ${made.version} has both sides: \`drover memory resolve\` says which.`);
}

async function resolve(fragment: string, content: string, options: AsAgent): Promise<void> {
  const answer = await connected(options, async (client) => {
    const body = { content, ...(await actor(client, options.agent)) };
    return client.post<Fragment>(`/v1/memory/fragments/${fragment}/resolve`, body);
  });
  if (options.json) return printJson(answer);
  print(`resolved: ${answer.id}, version ${answer.version}.`);
}

async function remove(fragment: string, options: AsAgent): Promise<void> {
  await connected(options, (client) => client.delete(`/v1/memory/fragments/${fragment}`));
  if (options.json) return printJson({});
  print(`deleted: ${fragment}`);
}
