/**
 * Carries delegated work. Each look is one transaction under the lock of the delegating run: it creates a child for
 * each call that waits for one, answers the call of a child that has ended, and cancels children that nobody waits for
 * any more. So nothing is begun twice or lost, however often anybody looks and whenever a process dies. A child that
 * waits for a person holds up its own call only.
 */
import { textOf } from '../../core/content.ts';
import { settledEvent, type SettledAs } from '../../core/decision-events/tool-calls.ts';
import { DroverError } from '../../core/errors.ts';
import { isTerminal, OUT_OF_BUDGET, type NewEvent } from '../../core/events.ts';
import { LIMITS } from '../../core/limits.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { CallChange } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { listDelegations, listForsakenTasks, listOrphans, type Delegation } from '../../db/delegations.ts';
import { cancelTaskRow, changeTask, type TaskChange } from '../../db/tasks.ts';
import { hasReadUntrusted } from '../../db/unread.ts';
import { turnJobOf } from '../run-log/turn-job.ts';
import { learnSkills, PATIENT } from '../agents/similar-skills.ts';
import type { Context } from '../governance/context.ts';
import { whoseBudget } from '../budgets/whose-budget.ts';
import { announceAppended, appendToRun, type Announcement, type AppendedChange } from '../run-log/append-to-run.ts';
import { settlementChange } from '../run-log/settlement.ts';
import { announceCancelled, cancelChild, type CancelledRun } from '../runs/cancel-children.ts';
import { laterLook, sooner, type Delay } from './advance/later-look.ts';
import { beginDelegation } from './delegation/begin-delegation.ts';

interface Look {
  context: Context;
  tx: Tx;
  run: RunRow;
  events: NewEvent[];
  calls: CallChange[];
  /** Why a delegation has to begin later. */
  delay: Delay | undefined;
  /** Skills to look up after the commit. */
  untriedSkills: string[];
  created: Announcement[];
  cancelled: CancelledRun[];
}

/** Returns whether there was anything to do. Infrastructure errors throw. */
export async function advanceDelegations(
  context: Context,
  ref: { tenantId: string; runId: string },
): Promise<'passed' | 'advanced'> {
  const created: Announcement[] = [];
  const cancelled: CancelledRun[] = [];
  const untriedSkills: string[] = [];
  const appended = await appendToRun(context, ref, async (run, tx) => {
    const look: Look = { context, tx, run, events: [], calls: [], delay: undefined, untriedSkills, created, cancelled };
    for (const id of await listOrphans(tx, run.id)) {
      cancelled.push(...(await cancelChild(tx, { tenantId: ref.tenantId, runId: id }, 'nobody waits for it any more')));
    }
    for (const id of await listForsakenTasks(tx, run.id)) await cancelTaskRow(tx, id);
    if (isTerminal(run.status)) return null;
    for (const delegation of await listDelegations(tx, run.id)) await advance(look, delegation);
    return changeOf(look);
  });
  for (const written of created) announceAppended(context, written);
  announceCancelled(context, cancelled);
  if (untriedSkills.length > 0) await learnSkills(context, { ...ref, names: untriedSkills }, PATIENT);
  return appended || cancelled.length > 0 ? 'advanced' : 'passed';
}

function changeOf({ run, events, calls, delay }: Look): AppendedChange | null {
  if (events.length === 0 && !delay) return null;
  const ended = calls.map(({ id }) => id);
  const outbox = [...(ended.length > 0 ? [turnJobOf(run)] : []), ...(delay ? [laterLook(run, delay)] : [])];
  return { events, calls, outbox, ...(ended.length > 0 && { close_waits: ended }) };
}

async function advance(look: Look, delegation: Delegation): Promise<void> {
  const { child } = delegation;
  if (child && !isTerminal(child.status)) return;
  if (child) return join(look, delegation, child);
  if (delegation.task_status === 'cancelled') return settle(look, delegation, { status: 'failed', ...CANCELLED });
  try {
    const begun = await beginDelegation(look, delegation);
    if (begun === 'busy' || begun === 'contended') {
      look.delay = sooner(look.delay, begun);
      return;
    }
    look.created.push(begun.written);
    tell(look, delegation, begun.event);
  } catch (error) {
    const { code, message } = failureOf(look, error);
    if (delegation.task_status !== null)
      await end(look, delegation, { to: 'failed', error: { code, message }, tokens: null });
    settle(look, delegation, { status: 'failed', code, message });
  }
}

/**
 * Why a delegation failed, for the model. Rethrows errors that only another attempt can get past: the transaction is
 * over, or the database unreachable.
 */
function failureOf({ context, run }: Look, error: unknown): { code: string; message: string } {
  if (error instanceof DroverError) return error;
  // Errors of the database and of connections have a `code`.
  if (!(error instanceof Error) || 'code' in error) throw error;
  context.log.error({ run: run.id, err: error }, 'a delegation cannot be begun');
  return { code: 'internal', message: 'Drover could not begin it; the log of the worker says why.' };
}

const CANCELLED = { code: 'cancelled', message: 'The task was cancelled.' };

/** Ends the task; a cancelled one stays so, whatever its child does. */
async function end(
  { tx }: Look,
  { id, task_status }: Delegation,
  change: { to: 'failed'; error: { code: string; message: string }; tokens: number | null } | TaskDone,
): Promise<void> {
  if (task_status === 'cancelled') return;
  await changeTask(tx, id, change.to === 'failed' ? { ...change, approval_id: null } : change);
}

type TaskDone = Extract<TaskChange, { to: 'completed' }>;

type Child = NonNullable<Delegation['child']>;

async function join(look: Look, delegation: Delegation, child: Child): Promise<void> {
  const { id: run_id, agent_id, tokens } = child;
  const latency_ms = Math.max(0, child.latency_ms ?? 0);
  const task_id = delegation.id;
  const error = await errorOf(look, child);
  if (error) {
    await end(look, delegation, { to: 'failed', error, tokens });
    tell(look, delegation, { type: 'task.failed', payload: { task_id, run_id, error, final: true } });
    // The log keeps no content: the child's run has what it had said by then.
    const said = child.output ? ` What it had said by then is the output of run ${run_id}.` : '';
    // The error of a run that failed by itself may quote its models or their providers.
    const from = error === child.error ? {} : { origin: 'drover' as const };
    const untrusted = (await hasReadUntrusted(look.tx, run_id)) && { untrusted: true as const };
    return settle(look, delegation, {
      status: 'failed',
      ...from,
      ...untrusted,
      code: error.code,
      message: `${error.message}${said}`,
    });
  }
  await end(look, delegation, { to: 'completed', tokens, latency_ms });
  tell(look, delegation, { type: 'task.completed', payload: { task_id, run_id, tokens, latency_ms } });
  const result = shortened(textOf(child.output ?? []), run_id);
  const output = { result, agent_id, run_id, tokens_used: tokens };
  settle(look, delegation, { status: 'succeeded', output, ...(child.trust === 'untrusted' && { untrusted: true }) });
}

async function errorOf(
  { tx, run }: Look,
  { id: runId, status, stop_reason, error }: Child,
): Promise<{ code: string; message: string } | undefined> {
  if (stop_reason === OUT_OF_BUDGET) {
    const message = await whoseBudget(tx, { runId, parentId: run.id, parent: 'the run that has delegated it', error });
    return { code: OUT_OF_BUDGET, message };
  }
  if (status === 'completed') return undefined;
  if (status === 'cancelled') return { code: 'cancelled', message: 'The run that worked on it was cancelled.' };
  return error ?? { code: 'failed', message: 'The run that worked on it has failed.' };
}

function shortened(text: string, runId: string): string {
  const most = LIMITS.dependencyResultChars;
  return text.length <= most ? text : `${text.slice(0, most)}\n[cut; the whole is the output of run ${runId}]`;
}

function tell({ events }: Look, { turn_id }: Delegation, event: Pick<NewEvent, 'type' | 'payload'>): void {
  events.push({ actor: 'system', turn_id, ...event } as NewEvent);
}

function settle(look: Look, delegation: Delegation, settlement: SettledAs): void {
  const latencyMs = Math.max(0, delegation.child?.latency_ms ?? 0);
  const settled = { callId: delegation.id, attempt: 1, settlement, latencyMs };
  tell(look, delegation, settledEvent(settled));
  look.calls.push(settlementChange(settled));
}
