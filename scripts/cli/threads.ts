/** `drover threads`: conversations with their messages and titles. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { connected, idOrExternal, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, plain, print, printFields, printJson, printNext, printTable } from './print.ts';

interface Thread {
  id: string;
  agent_id: string;
  title: string | null;
  total_runs: number;
  last_run_id: string | null;
  last_run_at: string | null;
  last_run_status: string | null;
  created_at: string;
}

interface Conversation {
  sequence_number: number;
  started_at: string;
  status: string;
  user_message: string;
  final_response: string | null;
  total_steps: number;
  cost: { total_cost: number | null };
}

interface Listed {
  threads: Thread[];
  next_cursor?: string;
}

interface Said {
  conversations: Conversation[];
  next_cursor?: string;
}

/** Adds the commands. */
export function addThreads(program: Command): void {
  const threads = program.command('threads').description('conversations, what was said in them, and their titles');
  withPage(threads.command('list'))
    .description('list threads, newest first')
    .option('--agent <agent>', 'of one agent, by its id, its name or ext:<external id>')
    .action(list);
  withPage(threads.command('show'), { limit: 10, of: 'how many turns' })
    .description('show a thread and what was said last')
    .argument('<id>', 'the thread, by its id or ext:<external id>', idOrExternal)
    .action(show);
  withPlace(threads.command('title'))
    .description('give a thread a title')
    .argument('<id>', 'the thread, by its id or ext:<external id>', idOrExternal)
    .argument('<title>', 'what it is to be called')
    .action(async (thread: string, title: string, options: Shared) => {
      const changed = await connected(options, (client) => client.patch<Thread>(pathOf(thread), { title }));
      if (options.json) printJson(changed ?? {});
      else print(plain(changed?.title ?? title));
    });
}

const pathOf = (thread: string) => `/v1/threads/${encodeURIComponent(thread)}`;

async function list({ agent, limit, cursor, ...options }: Shared & Page & { agent?: string }): Promise<void> {
  const answer = await connected(options, async (client) => {
    const query = { limit: String(limit), cursor, agent_id: agent && (await agentOf(client, agent)) };
    return client.get<Listed>('/v1/threads', query);
  });
  if (options.json) return printJson(answer);
  if (answer.threads.length === 0) return print('No threads.');
  printTable(
    ['ID', 'TITLE', 'RUNS', 'STATUS', 'LAST RUN'],
    answer.threads.map((each) => [
      each.id,
      line(each.title ?? '', 60),
      String(each.total_runs),
      each.last_run_status ?? '',
      each.last_run_at ?? '',
    ]),
  );
  printNext(answer.next_cursor);
}

async function show(thread: string, { limit, cursor, ...options }: Shared & Page): Promise<void> {
  const [found, said] = await connected(options, async (client) => [
    await client.get<Thread>(pathOf(thread)),
    await client.get<Said>(`${pathOf(thread)}/conversations`, { limit: String(limit), cursor }),
  ]);
  if (options.json) return printJson({ ...found, ...said });
  const { id, title, agent_id: agent, total_runs: runs, last_run_id: last, last_run_status: status } = found;
  printFields({ thread: id, title: title === null ? null : line(title), agent, runs: String(runs), last, status });
  for (const turn of said.conversations.toReversed()) {
    const cost = turn.cost.total_cost === null ? '' : `, ${turn.cost.total_cost} USD`;
    print(`\n#${turn.sequence_number} ${turn.started_at} ${turn.status}, ${turn.total_steps} steps${cost}`);
    print(`> ${plain(turn.user_message)}`);
    if (turn.final_response !== null) print(plain(turn.final_response));
  }
  printNext(said.next_cursor);
}
