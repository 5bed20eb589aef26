/** `drover workflows`: work in subtasks, from start to end. */
import type { Command } from 'commander';
import { agentOf, teamOf } from './named.ts';
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { followWorkflow, printWorkflow, type Workflow } from './follow-workflow.ts';
import { RUN_STATUSES } from '../../core/run-status.ts';
import { connected, id, someOf, whole, withPage, withPlace, type Page, type Shared } from './options.ts';
import { line, print, printJson, printNext, printTable } from './print.ts';
import { printTasks } from './tasks.ts';
import { readJsonFile } from './read-json-file.ts';
import { sayIfIdle } from './say-if-idle.ts';
import type { Task } from './task-tree.ts';

const RUN_HELP = `
A definition is what POST /v1/workflows takes under that name:
  {"subtasks": [{"id": "research", "description": "Find the top five."},
                {"id": "report", "description": "Write a page.", "dependencies": ["research"]}],
   "success_criteria": "Every competitor has a price."}
Without one the agent, or the team, splits the work itself.

What was begun goes on without this terminal: workflows show ID --follow looks on again, runs cancel ID ends it.
`;

/** Adds the commands. */
export function addWorkflows(program: Command): void {
  const workflows = program.command('workflows').description('work in subtasks that agents do: start it, look on');
  withPlace(workflows.command('run'))
    .description('start a workflow, and follow it to its end; ends with 1 if it failed or was cancelled')
    .argument('<query>', 'what is to be done')
    .option('--agent <agent>', 'who plans it, by id or name, where the workspace has several agents')
    .option('--team <team>', 'the team that does it, by id or name')
    .option('--definition <path>', 'a file with its subtasks, in JSON')
    .option('--name <name>', 'how it is listed (the beginning of the query)')
    .option('--on-failure <what>', 'when a subtask fails for good: fail, or ask a person')
    .option(
      '--execution <how>',
      'eager: a subtask begins when its own inputs are there; levels: all of a level together',
    )
    .option('--max-replans <n>', 'how often gaps are planned for anew', whole(0, 10))
    .option('--detach', 'print its id, and do not wait')
    .addHelpText('after', RUN_HELP)
    .action(run);
  withPage(workflows.command('list'))
    .description('list workflows, newest first')
    .option(
      '--status <status,…>',
      'those that are executing, awaiting_human, completed, failed, …',
      someOf(...RUN_STATUSES),
    )
    .action(list);
  withPlace(workflows.command('show'))
    .description('show a workflow: how it stands, its subtasks as a tree, its result')
    .argument('<id>', 'the workflow', id)
    .option('--follow', 'look on until it ends; ends with 1 if it failed or was cancelled')
    .action(show);
  withPlace(workflows.command('tasks'))
    .description('list the subtasks of a workflow, with the runs and the agents that do them')
    .argument('<id>', 'the workflow', id)
    .action(async (workflow: string, options: Shared) => {
      const { tasks } = await connected(options, (client) =>
        client.get<{ tasks: Task[] }>(`/v1/workflows/${workflow}`),
      );
      if (options.json) printJson({ tasks });
      else printTasks(tasks);
    });
}

interface Running extends Shared {
  agent?: string;
  team?: string;
  definition?: string;
  name?: string;
  onFailure?: string;
  execution?: string;
  maxReplans?: number;
  detach?: true;
}

async function run(query: string, options: Running): Promise<void> {
  if (options.agent !== undefined && options.team !== undefined) {
    throw new CommandError(EXIT.usage, 'Give either --agent or --team, not both.');
  }
  const definition = options.definition === undefined ? undefined : await readJsonFile(options.definition);
  await connected(options, async (client) => {
    if (client.isIdle && !options.detach) {
      const how = '`drover start` starts one; with --detach the workflow waits for it.';
      throw new CommandError(EXIT.unreachable, `No service runs that would do the work. ${how}`);
    }
    const made = await client.post<Workflow>('/v1/workflows', {
      name: options.name ?? line(query, 80),
      ...(options.team === undefined
        ? { agent_id: await agentOf(client, options.agent) }
        : { team_id: await teamOf(client, options.team) }),
      input: { user_query: query },
      definition,
      on_subtask_failure: options.onFailure,
      execution: options.execution,
      max_replans: options.maxReplans,
    });
    if (!options.detach) return look(client, made.id, options);
    if (options.json) printJson(made);
    else print(made.id);
    return sayIfIdle(client);
  });
}

async function look(client: Client, workflow: string, { json }: Shared): Promise<void> {
  const ended = await followWorkflow(client, workflow, { isQuiet: json === true });
  if (json) printJson(ended);
  if (ended.status === 'completed') return;
  const why = ended.error ? ` ${line(`${ended.error.code}: ${ended.error.message}`, 500)}` : '';
  throw new CommandError(EXIT.refused, `The workflow is ${ended.status}.${why}`);
}

async function list(options: Shared & Page & { status?: string }): Promise<void> {
  const query = { status: options.status, limit: String(options.limit), cursor: options.cursor };
  const answer = await connected(options, (client) =>
    client.get<{ workflows: Workflow[]; next_cursor?: string }>('/v1/workflows', query),
  );
  if (options.json) return printJson(answer);
  if (answer.workflows.length === 0) return print('No workflows.');
  printTable(
    ['ID', 'NAME', 'STATUS', 'CREATED', 'OUTCOME'],
    answer.workflows.map(({ id: workflow, name, status, created_at: created, ...rest }) => {
      return [workflow, line(name, 40), status, created, line(rest.error?.message ?? rest.result ?? '', 60)];
    }),
  );
  printNext(answer.next_cursor);
}

async function show(workflow: string, options: Shared & { follow?: true }): Promise<void> {
  await connected(options, async (client) => {
    if (options.follow && !client.isIdle) return look(client, workflow, options);
    const found = await client.get<Workflow>(`/v1/workflows/${workflow}`);
    if (options.json) return printJson(found);
    return printWorkflow(found);
  });
}
