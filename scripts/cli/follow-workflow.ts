/** A workflow in the terminal: a tree of its subtasks, which is drawn anew as they go on. */
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
const POLL_MS = 500;
/** How many questions in a row may go without an answer, as when the service is started again. */
const ATTEMPTS = 60;

/** Shows a workflow as it goes on; answers it when it has ended. */
export async function followWorkflow(client: Client, id: string, { isQuiet }: { isQuiet: boolean }): Promise<Workflow> {
  const view = isQuiet ? undefined : createView();
  for (let attempt = 0; ;) {
    try {
      const found = await client.get<Workflow>(`/v1/workflows/${id}`);
      attempt = 0;
      const hasEnded = ENDED.has(found.status);
      view?.show(found, hasEnded);
      if (hasEnded) return found;
    } catch (error) {
      attempt += 1;
      const isGone = error instanceof CommandError && error.exitCode === EXIT.unreachable;
      if (!isGone || attempt >= ATTEMPTS) throw error;
    }
    await delay(POLL_MS);
  }
}

/** All that there is to say about it. */
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
  return isAsking ? [...tree, `It waits for a person: drover approvals list --run ${id}`] : tree;
}

interface View {
  show(workflow: Workflow, hasEnded: boolean): void;
}

function createView(): View {
  return process.stdout.isTTY ? drawnView() : toldView();
}

/** On a terminal the tree takes the place of the one before. */
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

/** Elsewhere each change is a line, and the tree stands at the end. */
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
