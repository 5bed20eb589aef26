/** Shows a workflow in the terminal as a tree of its subtasks, redrawn as they progress. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from './client.ts';
import { CommandError, EXIT } from './errors.ts';
import { line, plain, print, printFields, treeLines } from './print.ts';
import { taskBranches, type Task } from './task-tree.ts';

export interface Workflow {
  id: string;
  name: string;
  agent_id: string | null;
  team_id: string | null;
  status: string;
  success_criteria: string | null;
  result: string | null;
  meets_criteria: boolean | null;
  gaps: string[];
  plans: number;
  error?: { code: string; message: string };
  created_at: string;
  completed_at: string | null;
  tasks: Task[];
}

const ENDED = new Set(['completed', 'failed', 'cancelled']);
/** How often to poll for what the stream omits, such as a child that waits for a person. */
const LOOK_MS = 5000;
const PAUSE_MS = 500;
/** The most failed polls in a row, as during a restart of the service. */
const ATTEMPTS = 60;

/** Shows a workflow as its stream reports progress; returns it once it has ended. */
export async function followWorkflow(client: Client, id: string, { isQuiet }: { isQuiet: boolean }): Promise<Workflow> {
  const view = isQuiet ? undefined : createView();
  const news = listen(client, id);
  try {
    for (let attempt = 0; ;) {
      const found = await look(client, id);
      attempt = found ? 0 : attempt + 1;
      if (attempt >= ATTEMPTS) throw new CommandError(EXIT.unreachable, `Nothing answers at ${client.url} any more.`);
      const hasEnded = found !== undefined && ENDED.has(found.status);
      if (found) view?.show(found, hasEnded);
      if (hasEnded) return found;
      await news.next(found ? LOOK_MS : PAUSE_MS);
    }
  } finally {
    news.stop();
  }
}

/** Undefined if nothing answers. */
async function look(client: Client, id: string): Promise<Workflow | undefined> {
  try {
    return await client.get<Workflow>(`/v1/workflows/${id}`);
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === EXIT.unreachable) return undefined;
    throw error;
  }
}

interface News {
  /** Resolves once the stream has news since the last call, or after `ms`. */
  next(ms: number): Promise<void>;
  stop(): void;
}

/** Reads the stream of the workflow's run; a broken one is resumed. */
function listen(client: Client, id: string): News {
  let lastEventId: string | undefined;
  let isTold = false;
  let tell: () => void = () => undefined;
  const stopped = new AbortController();
  const read = async () => {
    while (!stopped.signal.aborted) {
      try {
        for await (const message of client.follow(`/v1/runs/${id}/stream`, lastEventId, stopped.signal)) {
          ({ lastEventId } = message);
          isTold = true;
          tell();
        }
      } catch {
        // Polling the workflow tells whether the service is there.
      }
      await delay(PAUSE_MS, undefined, { signal: stopped.signal }).catch(() => undefined);
    }
  };
  void read();
  return {
    async next(ms) {
      const waiting = new AbortController();
      tell = () => waiting.abort();
      if (!isTold) await delay(ms, undefined, { signal: waiting.signal }).catch(() => undefined);
      isTold = false;
    },
    stop: () => stopped.abort(),
  };
}

/** Prints everything about a workflow. */
export function printWorkflow(workflow: Workflow): void {
  const { error, meets_criteria: meets } = workflow;
  printFields({
    workflow: workflow.id,
    name: line(workflow.name),
    status: workflow.status,
    agent: workflow.agent_id,
    team: workflow.team_id,
    criteria: workflow.success_criteria,
    'meets criteria': meets === null ? null : meets ? 'yes' : 'no',
    gaps: workflow.gaps.join('; '),
    plans: workflow.plans,
    created: workflow.created_at,
    completed: workflow.completed_at,
    error: error && `${error.code}: ${error.message}`,
  });
  print();
  for (const each of linesOf(workflow)) print(each);
  if (workflow.result !== null) print(`\n${plain(workflow.result)}`);
}

function linesOf({ id, name, status, tasks }: Workflow): string[] {
  const tree = treeLines({ text: `${line(name, 60)}  ${id}  ${status}`, children: taskBranches(tasks) });
  const isAsking = status === 'awaiting_human';
  const waiting = tasks.flatMap(({ subtask_id: subtask, run_id: run, waiting_for: waits }) => {
    const isForSomebody = waits?.type === 'user' || waits?.type === 'approval' || waits?.type === 'client_tools';
    return isForSomebody ? [`${line(subtask, 60)} waits for somebody (${waits.type}): drover runs show ${run}`] : [];
  });
  return [...tree, ...(isAsking ? [`It waits for a person: drover approvals list --run ${id}`] : []), ...waiting];
}

interface View {
  show(workflow: Workflow, hasEnded: boolean): void;
}

function createView(): View {
  return process.stdout.isTTY ? drawnView() : toldView();
}

/** On a terminal, redraws the tree in place. */
function drawnView(): View {
  let drawn = 0;
  return {
    show(workflow, hasEnded) {
      const { columns, rows } = process.stdout;
      const lines = linesOf(workflow).map((each) => (each.length < columns ? each : `${each.slice(0, columns - 2)}…`));
      const room = hasEnded ? lines.length : Math.max(1, rows - 2);
      const shown = lines.length > room ? [...lines.slice(0, room), `… ${lines.length - room} more`] : lines;
      const back = drawn > 0 ? `\u001b[${drawn}A\u001b[J` : '';
      process.stdout.write(`${back}${shown.join('\n')}\n`);
      drawn = shown.length;
      if (hasEnded && workflow.result !== null) print(`\n${plain(workflow.result)}`);
    },
  };
}

/** Elsewhere, prints a line per change, and the tree at the end. */
function toldView(): View {
  const known = new Map<string, string>();
  const tell = (what: string, name: string, status: string) => {
    if (known.get(what) !== status) print(`${line(name, 60)}: ${status}`);
    known.set(what, status);
  };
  return {
    show(workflow, hasEnded) {
      tell(workflow.id, `workflow ${workflow.id}`, workflow.status);
      for (const { id, subtask_id: name, status } of workflow.tasks) tell(id, name, status);
      if (!hasEnded) return;
      print();
      for (const each of linesOf(workflow)) print(each);
      if (workflow.result !== null) print(`\n${plain(workflow.result)}`);
    },
  };
}
