/** Ends a workflow whose subtasks are done: makes its answer of their results. */
import { textOf, type StoredBlock } from '../../../core/content.ts';
import { statusChanged } from '../../../core/decision-events/turns.ts';
import type { NewEvent, RunStatus } from '../../../core/events.ts';
import { majority } from '../../../core/team.ts';
import { ERASED_RESULT, lastSubtasks } from '../../../core/workflow.ts';
import type { RunRow } from '../../../db/claim-run.ts';
import { readMessages } from '../../../db/messages.ts';
import { isPlanUntrusted } from '../../../db/task-inputs.ts';
import type { ScheduledTask } from '../../../db/scheduled-tasks.ts';
import type { Tx } from '../../../db/database.ts';
import { readTaskResults } from '../../../db/tasks.ts';
import { findThread } from '../../../db/threads.ts';
import { findWorkflow, rememberVerdict, type WorkflowRow } from '../../../db/workflows.ts';
import { chainOf } from '../../run-log/checkpoint.ts';
import type { AppendedChange } from '../../run-log/append-to-run.ts';
import type { WorkflowLook } from './workflow-look.ts';

/** A workflow's answer. */
export interface Conclusion {
  result: string;
  /** Null if not checked. */
  meetsCriteria: boolean | null;
  gaps: number;
}

/**
 * The answer without a model: the result of the last subtask, or those of all that no other one needed. The votes of a team
 * count as one.
 */
export async function plainConclusion({
  tx,
  tasks,
  workflow,
}: Pick<WorkflowLook, 'tx' | 'tasks' | 'workflow'>): Promise<Conclusion> {
  const last = lastSubtasks(tasks);
  const results = await readTaskResults(
    tx,
    last.map(({ id }) => id),
  );
  const votes = last.filter((task) => isVote(workflow, task));
  const chosen = majority(votes.map((task) => resultOf(task, results)));
  const texts = last
    .filter((task) => !votes.includes(task) || task === votes[0])
    .map((task) => ({ name: task.name, text: task === votes[0] ? (chosen ?? '') : resultOf(task, results) }));
  const result =
    texts.length === 1 ? (texts[0]?.text ?? '') : texts.map(({ name, text }) => `${name}:\n${text}`).join('\n\n');
  return { result, meetsCriteria: null, gaps: 0 };
}

/**
 * Whether a last subtask is a member's vote on the query. Where that was not noted yet, by the form of a team's own
 * subtasks; as several last ones, only voters have it.
 */
function isVote(workflow: WorkflowRow, { name, description, dependencies, agent_id }: ScheduledTask): boolean {
  const { input, settings } = workflow;
  if (settings.by_vote === false || !answersAsTeam(workflow)) return false;
  const isOfTeam = agent_id !== null && dependencies.length === 0 && /^\d+-/.test(name);
  return isOfTeam && description === (input.user_query ?? workflow.name);
}

/** Whether the answer is what the team's subtasks come to by themselves; results that fill gaps have to be put together. */
export function answersAsTeam({ team_id, plans }: Pick<WorkflowRow, 'team_id' | 'plans'>): boolean {
  return team_id !== null && plans <= 1;
}

/** The result of a task; a note if it is completed and erased, '' if it is not completed. */
export function resultOf(
  { id, status }: Pick<ScheduledTask, 'id' | 'status'>,
  results: ReadonlyMap<string, StoredBlock[]>,
): string {
  const content = results.get(id);
  return content ? textOf(content) : status === 'completed' ? ERASED_RESULT : '';
}

/** In a recorded replay, the original's answer; else, or if that one is gone, undefined. */
export async function recordedConclusion({ tx, workflow }: WorkflowLook): Promise<Conclusion | undefined> {
  const original = workflow.recorded_from ? await findWorkflow(tx, workflow.recorded_from) : undefined;
  if (!original?.output || original.erased_at) return undefined;
  const { meets_criteria: meetsCriteria, gaps } = original;
  await rememberVerdict(tx, workflow.id, { meets_criteria: meetsCriteria, gaps });
  return { result: textOf(original.output), meetsCriteria, gaps: gaps.length };
}

/** Ends the run with an answer; its conversation is the question and the answer. */
export async function concluded(
  step: Pick<WorkflowLook, 'tx' | 'run' | 'workflow' | 'tasks' | 'events'>,
  { result, meetsCriteria, gaps }: Conclusion,
): Promise<AppendedChange> {
  const { tx, run, workflow, events } = step;
  const turnId = run.open_turn_id ?? undefined;
  const by = { actor: 'system' as const, turn_id: turnId };
  const question = workflow.input.user_query ?? step.tasks[0]?.description ?? workflow.name;
  const messages = await nextMessages(tx, run, [
    { role: 'user', text: question },
    { role: 'assistant', text: result },
  ]);
  const untrusted = (await isPlanUntrusted(tx, workflow.id)) && { untrusted: true as const };
  const ordinal = run.length + messages.length - 1;
  const payload = { ordinal, length: ordinal + 1, meets_criteria: meetsCriteria, gaps };
  const way: RunStatus[] = ['reflecting', 'completed'];
  const from = statusAfter(run.status, events);
  const ends: NewEvent[] = [
    { ...by, type: 'workflow.concluded', payload },
    ...way.map((to, index) => statusChanged({ from: way[index - 1] ?? from, to, turnId, actor: 'system' })),
    { ...by, type: 'run.completed', payload: { stop_reason: 'end_turn', output_ordinal: ordinal } },
    { ...by, type: 'turn.completed', payload: { stop_reason: 'end_turn', ordinal, ...untrusted } },
  ];
  return { events: [...events, ...ends], messages, release: true, ...(await titleAfter(step)) };
}

/** Titles a conversation by its first turn, also if that is a team's. The thread that a workflow has made for itself has no title. */
async function titleAfter({
  tx,
  run,
  workflow,
}: Pick<WorkflowLook, 'tx' | 'run' | 'workflow'>): Promise<Pick<AppendedChange, 'title_if_first'>> {
  if (workflow.team_id === null) return {};
  const { thread_id: id, thread_place: place } = run;
  const isClients = (place ?? 1) > 1 || (await findThread(tx, id))?.external_id;
  return isClients ? { title_if_first: id } : {};
}

/** A run's status after these events. */
export function statusAfter(status: RunStatus, events: readonly NewEvent[]): RunStatus {
  const changed = events.findLast((event) => event.type === 'run.status_changed');
  return changed?.type === 'run.status_changed' ? changed.payload.to : status;
}

/** The messages that follow those of the run's conversation, chained to its last one. */
async function nextMessages(
  tx: Tx,
  { id, length }: RunRow,
  said: readonly { role: 'user' | 'assistant'; text: string }[],
) {
  const [last] = length === 0 ? [] : await readMessages(tx, id, { from: length - 1, length });
  if (length > 0 && !last) throw new Error(`the last message of workflow ${id} is not there`);
  let chain = last?.chain ?? '';
  return said.map(({ role, text }, index) => {
    const content: StoredBlock[] = [{ type: 'text', text }];
    chain = chainOf(chain, { role, content });
    return { ordinal: length + index, role, content, chain };
  });
}
