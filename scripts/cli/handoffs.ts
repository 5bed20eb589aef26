/** `drover handoffs`: work that one agent passes to another. */
import type { Command } from 'commander';
import { agentOf } from './named.ts';
import { connected, id, someOf, whole, withPage, withPlace, type Page, type Shared } from './options.ts';
import { readJsonFile } from './read-json-file.ts';
import { line, print, printFields, printJson, printNext, printTable } from './print.ts';
import { sayIfIdle } from './say-if-idle.ts';

const STATUSES = ['initiated', 'accepted', 'completed', 'rejected', 'failed', 'cancelled'];

interface Listed {
  id: string;
  task_id: string | null;
  source_agent_id: string;
  target_agent_id: string;
  source_run_id: string | null;
  target_run_id: string | null;
  status: string;
  reason: string;
  urgency: string;
  rejection: { code: string; message: string } | null;
  context_tokens: number;
  summary_tokens: number;
  initiated_at: string;
  completed_at: string | null;
}

interface Handoff extends Listed {
  chain: { handoff_id: string; source_agent_id: string; target_agent_id: string; status: string }[];
}

/** Adds the commands. */
export function addHandoffs(program: Command): void {
  const handoffs = program.command('handoffs').description('work that one agent passes to another');
  withPlace(handoffs.command('create'))
    .description('hand a task over, and print the id of the handoff')
    .argument('<task>', 'the task', id)
    .requiredOption('--from <agent>', 'the agent that has it, by id or name')
    .requiredOption('--to <agent>', 'the agent that gets it, by id or name')
    .requiredOption('--reason <text>', 'why')
    .option('--context <path>', 'a file with what is handed over, in JSON')
    .option('--max-tokens <n>', 'what the target is given at most', whole(1, 10_000_000))
    .action(create);
  withPage(handoffs.command('list'))
    .description('list handoffs, newest first')
    .option('--task <id>', 'of one task', id)
    .option(
      '--status <status,…>',
      'those that are initiated, accepted, completed, rejected, failed, cancelled',
      someOf(...STATUSES),
    )
    .action(list);
  withPlace(handoffs.command('show'))
    .description('show a handoff with the chain that has led to it')
    .argument('<id>', 'the handoff', id)
    .action(show);
}

type Listing = Shared & Page & { task?: string; status?: string };

interface Creating extends Shared {
  from: string;
  to: string;
  reason: string;
  context?: string;
  maxTokens?: number;
}

async function create(task: string, options: Creating): Promise<void> {
  const context = options.context === undefined ? {} : await readJsonFile(options.context);
  await connected(options, async (client) => {
    const [source, target] = await Promise.all([agentOf(client, options.from), agentOf(client, options.to)]);
    const made = await client.post<Listed>('/v1/handoffs', {
      task_id: task,
      source_agent_id: source,
      target_agent_id: target,
      context,
      reason: options.reason,
      target_tokens: options.maxTokens,
    });
    if (options.json) printJson(made);
    else print(made.id);
    sayIfIdle(client);
  });
}

async function list({ task, status, limit, cursor, ...options }: Listing): Promise<void> {
  const query = { task_id: task, status, limit: String(limit), cursor };
  const answer = await connected(options, (client) =>
    client.get<{ handoffs: Listed[]; next_cursor?: string }>('/v1/handoffs', query),
  );
  if (options.json) return printJson(answer);
  if (answer.handoffs.length === 0) return print('No handoffs.');
  printTable(
    ['ID', 'STATUS', 'FROM', 'TO', 'TASK', 'REASON'],
    answer.handoffs.map((each) => [
      each.id,
      each.status,
      each.source_agent_id,
      each.target_agent_id,
      each.task_id ?? '',
      line(each.reason, 60),
    ]),
  );
  printNext(answer.next_cursor);
}

async function show(handoffId: string, options: Shared): Promise<void> {
  const found = await connected(options, (client) => client.get<Handoff>(`/v1/handoffs/${handoffId}`));
  if (options.json) return printJson(found);
  printFields({
    handoff: found.id,
    status: found.status,
    task: found.task_id,
    from: found.source_agent_id,
    to: found.target_agent_id,
    'from run': found.source_run_id,
    'to run': found.target_run_id,
    reason: line(found.reason, 200),
    urgency: found.urgency,
    tokens: `${found.summary_tokens} of ${found.context_tokens}`,
    initiated: found.initiated_at,
    completed: found.completed_at,
    rejected: found.rejection && `${found.rejection.code}: ${found.rejection.message}`,
  });
  if (found.chain.length < 2) return;
  print('');
  printTable(
    ['CHAIN', 'STATUS', 'FROM', 'TO'],
    found.chain.map((link) => [link.handoff_id, link.status, link.source_agent_id, link.target_agent_id]),
  );
}
