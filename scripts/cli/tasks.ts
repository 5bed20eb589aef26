/** `drover tasks`: single tasks for the best matching agent. */
import type { Command } from 'commander';
import { agentsOf } from './named.ts';
import { connected, id, names, someOf, time, whole, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, plain, print, printFields, printJson, printNext, printTable } from './print.ts';
import { sayIfIdle } from './say-if-idle.ts';
import type { Task } from './task-tree.ts';

const STATUSES = ['pending', 'assigned', 'in_progress', 'awaiting_handoff', 'completed', 'failed', 'cancelled'];

/** Adds the commands. */
export function addTasks(program: Command): void {
  const tasks = program.command('tasks').description('single tasks, each for the agent that fits best');
  withPlace(tasks.command('submit'))
    .description('submit a task, and print its id')
    .argument('<description>', 'what is to be done')
    .option('--workflow <id>', 'for a workflow that has not ended; else it stands by itself', id)
    .option('--query <text>', 'what the agent is given to read beside it')
    .option('--capabilities <name,…>', 'what the agent has to be able to do', names)
    .option('--prefer <agent,…>', 'agents that come first, by id or name', names)
    .option('--exclude <agent,…>', 'agents that do not come into question, by id or name', names)
    .option('--max-tokens <n>', 'it fails beyond that', whole(1, 1_000_000_000))
    .option('--deadline <time>', 'it fails after that, as in 2026-11-22T10:00:00Z', time)
    .action(submit);
  withPage(tasks.command('list'))
    .description('list tasks, newest first')
    .option('--workflow <id>', 'of one workflow', id)
    .option(
      '--status <status,…>',
      'those that are pending, assigned, in_progress, completed, failed, …',
      someOf(...STATUSES),
    )
    .action(list);
  withPlace(tasks.command('show'))
    .description('show a task: who does it, in which run, and what came of it')
    .argument('<id>', 'the task', id)
    .action(show);
  withPlace(tasks.command('cancel'))
    .description('cancel a task with the run that works on it; again is no different')
    .argument('<id>', 'the task', id)
    .action(async (task: string, options: Shared) => {
      const found = await connected(options, (client) => client.post<Task>(`/v1/tasks/${task}/cancel`, {}));
      if (options.json) printJson(found);
      else print(`${found.status}: ${found.id}`);
    });
}

/** Prints a row per task. */
export function printTasks(tasks: readonly Task[]): void {
  if (tasks.length === 0) return print('No tasks.');
  printTable(
    ['ID', 'SUBTASK', 'STATUS', 'RUN', 'AGENT', 'OUTCOME'],
    tasks.map(({ id: task, subtask_id: name, status, run_id: run, assignment, ...rest }) => {
      const outcome = line(rest.output?.result ?? rest.last_error?.message ?? '', 60);
      return [task, line(name, 40), status, run ?? '', assignment?.assigned_agent_id ?? '', outcome];
    }),
  );
}

interface Submitting extends Shared {
  workflow?: string;
  query?: string;
  capabilities?: string[];
  prefer?: string[];
  exclude?: string[];
  maxTokens?: number;
  deadline?: string;
}

async function submit(description: string, options: Submitting): Promise<void> {
  await connected(options, async (client) => {
    const [preferred, excluded] = await Promise.all([
      agentsOf(client, options.prefer),
      agentsOf(client, options.exclude),
    ]);
    const made = await client.post<Task>('/v1/tasks', {
      workflow_id: options.workflow,
      description,
      input: options.query === undefined ? undefined : { user_query: options.query },
      requirements: {
        required_capabilities: options.capabilities,
        preferred_agents: preferred,
        excluded_agents: excluded,
        max_cost_tokens: options.maxTokens,
        deadline: options.deadline,
      },
    });
    if (options.json) printJson(made);
    else print(made.id);
    sayIfIdle(client);
  });
}

type Listing = Shared & Page & { workflow?: string; status?: string };

async function list({ workflow, status, limit, cursor, ...options }: Listing): Promise<void> {
  const query = { workflow_id: workflow, status, limit: String(limit), cursor };
  const answer = await connected(options, (client) =>
    client.get<{ tasks: Task[]; next_cursor?: string }>('/v1/tasks', query),
  );
  if (options.json) return printJson(answer);
  printTasks(answer.tasks);
  printNext(answer.next_cursor);
}

async function show(taskId: string, options: Shared): Promise<void> {
  const found = await connected(options, (client) => client.get<Task>(`/v1/tasks/${taskId}`));
  if (options.json) return printJson(found);
  const { assignment, output, last_error: error } = found;
  printFields({
    task: found.id,
    status: found.status,
    subtask: found.subtask_id,
    workflow: found.workflow_id,
    parent: found.parent_run_id,
    description: found.description,
    agent: assignment?.assigned_agent_id,
    because: assignment?.assignment_reason,
    run: found.run_id,
    retries: found.retry_count,
    deadline: found.deadline,
    tokens: output?.tokens_used,
    created: found.created_at,
    completed: found.completed_at,
    error: error && `${error.code}: ${error.message}`,
  });
  if (output) print(`\n${plain(output.result)}`);
}
