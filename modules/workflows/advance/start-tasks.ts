/** Starts subtasks whose inputs are there: each is a child of the workflow's run, created with its event. */
import { textOf } from '../../../core/content.ts';
import { DroverError } from '../../../core/errors.ts';
import { OUT_OF_BUDGET } from '../../../core/events.ts';
import { canonicalJson } from '../../../core/canonical-json.ts';
import { LIMITS } from '../../../core/limits.ts';
import { assignmentReason } from '../../../core/matching.ts';
import { ERASED_RESULT, inTurn, levelsOf, nextSubtasks, type SubtaskState } from '../../../core/workflow.ts';
import { howFar, listReadyTasks, type ScheduledTask } from '../../../db/scheduled-tasks.ts';
import { isPlanUntrusted, readInputs, readReadyInputs, recountInputs, type InputRow } from '../../../db/task-inputs.ts';
import { tokensOfTask } from '../../../db/task-effects.ts';
import { changeTask, type TaskStatus } from '../../../db/tasks.ts';
import { noteAssigned } from '../../../db/agent-lifecycle.ts';
import { prepareRun, type ReadyRun } from '../../runs/create-run.ts';
import type { HeldSlot, WrittenRun } from '../../runs/written-run.ts';
import { leadOf } from '../delegation/supervisor.ts';
import { isOnThread, spokenBefore } from './on-thread.ts';
import { chooseWorker, countStart, lookUpOwn, whyNobody, type Worker } from './choose-worker.ts';
import { sooner, type Delay } from './later-look.ts';
import { attemptFailed, INPUT_ERASED } from './settle-tasks.ts';
import { acceptHandoff, handedOver, isHandedByStrangers, noteReturn, refuseHandoff, targetOf } from './take-over.ts';
import { become, tell, type WorkflowLook } from './workflow-look.ts';

const STATES: Record<TaskStatus, SubtaskState['state']> = {
  pending: 'waiting',
  assigned: 'running',
  in_progress: 'running',
  awaiting_handoff: 'waiting',
  completed: 'done',
  failed: 'failed',
  cancelled: 'failed',
};

/** A task's state for the scheduler. */
function stateOf({ status }: Pick<ScheduledTask, 'status'>): SubtaskState['state'] {
  return STATES[status];
}

/** Starts as many as there is room for; returns a delay if one has to wait for an agent or is tried again at once. */
export async function startTasks(look: WorkflowLook): Promise<{ delay: Delay | undefined }> {
  const next = await nextTasks(look);
  // For a few tasks, the inputs are read while their workers are chosen.
  const [{ starts, delay }, inputs] = await Promise.all([
    chooseWorkers(look, next),
    next.length > 0 && next.length <= TOGETHER ? inputsOf(look, next) : undefined,
  ]);
  for (let at = 0; at < starts.length; at += TOGETHER) {
    const together = starts.slice(at, at + TOGETHER);
    await look.writing;
    await startAll(look, together, inputs ?? (await inputsOf(look, tasksOf(together))));
  }
  const isPending = next.some(({ id }) => look.tasks.find((task) => task.id === id)?.status === 'pending');
  return { delay: delay ?? (isPending ? 'busy' : undefined) };
}

async function chooseWorkers(
  look: WorkflowLook,
  next: readonly ScheduledTask[],
): Promise<{ starts: Start[]; delay: Delay | undefined }> {
  const starts: Start[] = [];
  let delay: Delay | undefined;
  for (const task of next) {
    const isHanded = task.status === 'awaiting_handoff';
    if (task.description === '' && !isHanded) {
      await attemptFailed(look, task, { error: ERASED, tokens: null, isFinal: true });
      continue;
    }
    const worker = isHanded ? await targetOf(look, task) : await chooseWorker(look, task);
    if (worker === 'busy' || worker === 'contended') delay = sooner(delay, worker);
    else if (worker === 'none' && isHanded) await refuseHandoff(look, task, NOT_TAKEN);
    else if (worker === 'none') await failForWorkers(look, task);
    else {
      countStart(look, worker.agentId);
      starts.push({ task, worker });
    }
  }
  return { starts, delay };
}

async function failForWorkers(look: WorkflowLook, task: ScheduledTask): Promise<void> {
  const error = { code: 'InsufficientAgents', message: await whyNobody(look, task) };
  await attemptFailed(look, task, { error, tokens: null, isFinal: true });
}

const tasksOf = (starts: readonly Start[]) => starts.map(({ task }) => task);

/** Subtasks that are read and written in one go; their inputs are in memory meanwhile. */
const TOGETHER = 16;

/**
 * Reads what can start after the statements now on their way, along with them, and the inputs; nothing if more has to
 * be known. Also looks up the workflow's own agent, which does most tasks.
 */
export async function foresee(look: WorkflowLook): Promise<Pick<WorkflowLook, 'ready' | 'progress'>> {
  const { tx, run, workflow } = look;
  const slots = LIMITS.subtasksAtOnce - look.tasks.filter((task) => stateOf(task) === 'running').length;
  if (workflow.settings.execution === 'levels' || slots <= 0) return {};
  const few = Math.min(slots, TOGETHER);
  const isIdle = look.tasks.every(({ status }) => status === 'completed');
  const [tasks, inputs, progress] = await Promise.all([
    listReadyTasks(tx, run.id, slots),
    readReadyInputs(tx, run.id, few),
    isIdle ? howFar(tx, run.id) : undefined,
    lookUpOwn(look),
  ]);
  return { ready: { tasks, inputs: tasks.length <= few ? inputs : undefined }, progress };
}

async function nextTasks(look: WorkflowLook): Promise<ScheduledTask[]> {
  const states = look.tasks.map((task) => ({ ...task, state: stateOf(task) }));
  const running = states.filter(({ state }) => state === 'running').length;
  const slots = LIMITS.subtasksAtOnce - running;
  if (look.workflow.settings.execution === 'levels') {
    const next = nextSubtasks(states, { slots, execution: 'levels' });
    tellLevel(look, next);
    return next;
  }
  if (slots <= 0) return [];
  const ready = await readyTasks(look, { slots, isIdle: running === 0 });
  const ids = new Set(ready.map(({ id }) => id));
  look.tasks = [...look.tasks.filter(({ id }) => !ids.has(id)), ...ready];
  return inTurn(ready, ({ path }) => path);
}

/**
 * Tasks that are ready. If nothing runs and none is, the open-input counts of the rows are recomputed once from the
 * tasks themselves.
 */
async function readyTasks(
  look: WorkflowLook,
  { slots, isIdle }: { slots: number; isIdle: boolean },
): Promise<ScheduledTask[]> {
  const { tx, run } = look;
  const ready = look.ready?.tasks ?? (await listReadyTasks(tx, run.id, slots));
  if (ready.length > 0 || !isIdle || look.progress === 'done' || !(await recountInputs(tx, run.id))) return ready;
  look.ready = undefined;
  return listReadyTasks(tx, run.id, slots);
}

const NOT_TAKEN = { code: 'unavailable', message: 'The agent takes no tasks now.' };
/** Erasing the run of an attempt erases its brief, too. */
const ERASED = { code: INPUT_ERASED, message: 'What was to be done is erased.' };

/** Announces a level before the first of its subtasks starts. */
function tellLevel(look: WorkflowLook, next: readonly ScheduledTask[]): void {
  const levels = levelsOf(look.tasks);
  const [first] = next;
  if (!first) return;
  const level = levels.get(first.id) ?? 0;
  const ofLevel = look.tasks.filter(({ id }) => levels.get(id) === level);
  const isFresh = ofLevel.every(({ status, retry_count }) => status === 'pending' && retry_count === 0);
  if (isFresh)
    tell(look, { type: 'workflow.level_started', payload: { level, task_ids: ofLevel.map(({ id }) => id) } });
}

interface Start {
  task: ScheduledTask;
  worker: Worker;
}

/** Starts tasks. An agent that cannot take a run, for instance since one of its tools is gone, has failed at the task. */
async function startAll(look: WorkflowLook, starts: readonly Start[], inputs: Inputs): Promise<void> {
  const begun: Begun[] = [];
  for (const start of starts) {
    if (await lacksInput(look, start.task, inputs)) continue;
    try {
      begun.push({ ...start, child: await prepare(look, start, inputs) });
    } catch (error) {
      if (!(error instanceof DroverError)) throw error;
      await refused(look, start, error);
    }
  }
  await writeAll(look, begun);
}

/** Fails a task if the result of a dependency is erased. A handed-over task has what it needs in the handoff. */
async function lacksInput(look: WorkflowLook, task: ScheduledTask, { byTask }: Inputs): Promise<boolean> {
  if (task.status === 'awaiting_handoff') return false;
  const erased = task.dependencies.map((id) => byTask.get(id)).find((input) => input?.is_erased);
  if (!erased) return false;
  const error = { code: INPUT_ERASED, message: `The result of ${erased.name}, which it needs, is erased.` };
  await attemptFailed(look, task, { error, tokens: null, isFinal: true });
  return true;
}

async function refused(look: WorkflowLook, { task, worker }: Start, { code, message }: DroverError): Promise<void> {
  if (task.status === 'awaiting_handoff') return refuseHandoff(look, task, { code, message });
  const isFinal = code === OUT_OF_BUDGET || task.retry_count >= LIMITS.taskRetries;
  const failed = { ...task, assigned_agent_id: worker.agentId };
  await attemptFailed(look, failed, { error: { code, message }, tokens: null, isFinal });
}

type Begun = Start & { child: ReadyRun };

async function prepare(look: WorkflowLook, { task, worker }: Start, inputs: Inputs): Promise<ReadyRun> {
  const { run, context, workflow } = look;
  const { agentId } = worker;
  const left = await tokensLeft(look, task);
  const lead = await leadOf(look, agentId);
  const message = [...messageFor(task, inputs), ...(await handedOver(look, task))].join('\n\n');
  const isReplanned = workflow.plans > 1 || task.is_early;
  const untrusted =
    (isReplanned && inputs.isPlanUntrusted) ||
    // An input that was not read is untrusted, too.
    task.dependencies.some((id) => inputs.byTask.get(id)?.is_untrusted ?? true) ||
    (await isHandedByStrangers(look, task));
  return prepareRun(context, look, {
    tenantId: run.tenant_id,
    workspaceId: run.workspace_id,
    agentId,
    after: await spokenBefore(look, task),
    ...(lead && { moreTools: lead.tools }),
    input: {
      message: lead ? `${message}\n\n${lead.members}` : message,
      ...(untrusted && { untrusted: true as const }),
    },
    config: left === undefined ? {} : { budget: { max_tokens: left } },
    mayRaiseAutonomy: false,
    child: { parent: run, taskId: task.id, attempt: task.retry_count + task.handoff_count },
    traceparent: run.traceparent ?? undefined,
  });
}

/** The tokens that earlier attempts have left of the task's limit; undefined without one. Throws if none are left. */
async function tokensLeft({ tx, run }: WorkflowLook, task: ScheduledTask): Promise<number | undefined> {
  const { max_cost_tokens: most } = task.requirements;
  if (most === undefined || task.retry_count + task.handoff_count === 0) return most;
  const left = most - (await tokensOfTask(tx, { workflowId: run.id, taskId: task.id }));
  if (left <= 0) throw new DroverError(OUT_OF_BUDGET, 409, 'The tokens of the task are used up.');
  return left;
}

/** Writes the children, and the changes of tasks and agents, without waiting (`look.writing`), and adds the events. */
async function writeAll(look: WorkflowLook, begun: readonly Begun[]): Promise<void> {
  look.writing = rowsOf(look, begun).then((created) => look.created.push(...created));
  // A failure before anybody awaits this fails the transaction, too, which reports it.
  look.writing.catch(() => undefined);
  for (const { task, worker, child } of begun) {
    const { agentId: agent_id, reason, score } = worker;
    const { run_id } = child.body;
    become(look, task.id, { status: 'in_progress', run_id, assigned_agent_id: agent_id, run: null });
    const attempt = task.retry_count + task.handoff_count + 1;
    const why = { reason, ...(score !== undefined && { score }) };
    tell(look, { type: 'task.assigned', payload: { task_id: task.id, run_id, agent_id, attempt, ...why } });
    if (task.status === 'awaiting_handoff') await acceptHandoff(look, task, run_id);
    else await noteReturn(look, task, run_id);
  }
}

async function rowsOf(look: WorkflowLook, begun: readonly Begun[]): Promise<WrittenRun[]> {
  const { tx } = look;
  const agents = new Set(begun.map(({ worker }) => worker.agentId));
  const [created] = await Promise.all([
    Promise.all(begun.map(({ task, child }) => child.write(tx, holdSlot(look, task)))),
    ...[...agents].map((id) => noteAssigned(tx, id)),
    ...begun.map(({ task, worker, child: { body } }) => {
      const reason = assignmentReason(worker);
      return changeTask(tx, task.id, { to: 'in_progress', run_id: body.run_id, agent_id: worker.agentId, reason });
    }),
  ]);
  return created;
}

/** Reserves a slot to drive the child in this process, if there is room. A child with a conversation has to read it first. */
function holdSlot(look: WorkflowLook, task: ScheduledTask): HeldSlot | undefined {
  const { context, run, governance, held } = look;
  if (isOnThread(look, task)) return undefined;
  const slot = context.outbox.reserveChildSlot(run.tenant_id);
  if (!slot) return undefined;
  held.push(slot);
  return { slot, leaseMs: context.config.leaseMs, policyEpoch: governance.epoch };
}

/** Inputs of the tasks that start together, and maybe of others. */
interface Inputs {
  byTask: Map<string, InputRow>;
  /** The plan was written by a planner that had read untrusted results. */
  isPlanUntrusted: boolean;
}

async function inputsOf({ tx, workflow, ready }: WorkflowLook, tasks: readonly ScheduledTask[]): Promise<Inputs> {
  const ids = [...new Set(tasks.flatMap(({ dependencies }) => dependencies))];
  const isReplanned = workflow.plans > 1 || tasks.some(({ is_early }) => is_early);
  const [rows, isUntrusted] = await Promise.all([
    ready?.inputs ?? readInputs(tx, ids),
    isReplanned && isPlanUntrusted(tx, workflow.id),
  ]);
  return { byTask: new Map(rows.map((row) => [row.id, row])), isPlanUntrusted: isUntrusted };
}

/** The worker's whole message: description, given input, and the results of dependencies. */
function messageFor(task: ScheduledTask, { byTask }: Inputs): string[] {
  const given = Object.entries(task.input ?? {}).flatMap(([name, value]) =>
    value === undefined || value === null
      ? []
      : [`${name}:\n${typeof value === 'string' ? value : canonicalJson(value)}`],
  );
  const inherited = task.dependencies.map((id) => {
    const from = byTask.get(id);
    const result = from?.is_erased ? ERASED_RESULT : shortened(textOf(from?.content ?? []), id);
    return `Result of ${from?.name ?? id}:\n${result}`;
  });
  return [task.description, ...given, ...inherited];
}

function shortened(text: string, taskId: string): string {
  const most = LIMITS.dependencyResultChars;
  return text.length <= most ? text : `${text.slice(0, most)}\n[cut; the whole is the output of task ${taskId}]`;
}
