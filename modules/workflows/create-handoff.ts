/** Hands a task from one agent to another on request of an API client. */
import type { Caller } from '../../core/caller.ts';
import { conflict, impossible, notFound } from '../../core/errors.ts';
import { isKnownSchema, type HandoffContext, type Urgency } from '../../core/handoff.ts';
import { digestOf } from '../../core/ids.ts';
import { isTerminal, type NewEvent } from '../../core/events.ts';
import { findAgent, type AgentRow } from '../../db/agents.ts';
import type { Tx } from '../../db/database.ts';
import type { HandoffRow } from '../../db/handoffs.ts';
import { findTask, handOverTask, type TaskRow } from '../../db/tasks.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { newId } from '../../lib/new-id.ts';
import { recordAudit } from '../audit/record-audit.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Appended } from '../run-log/append-to-run.ts';
import { announceCancelled, cancelChild, type CancelledRun } from '../runs/cancel-children.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';
import { summarizeHistory } from './handoffs/summarize-history.ts';
import { handoffTokens, writeHandoff, type HandoffWish } from './handoffs/write-handoff.ts';

interface HandoffRequest {
  caller: Caller;
  taskId: string;
  sourceAgentId: string;
  targetAgentId: string;
  context: HandoffContext;
  reason: string;
  urgency: Urgency;
  expectedAction?: string | undefined;
  /** As computed by the client, of `sent`. */
  checksum?: string | undefined;
  /** The context before characters of it were replaced. */
  sent: unknown;
  schemaVersion?: string | undefined;
  targetTokens?: number | undefined;
  idempotency: IdempotentRequest;
}

interface Written {
  row: HandoffRow;
  appended?: Appended | undefined;
  cancelled: CancelledRun[];
}

/**
 * Cancels the source's run for the task, which then waits for the target (`awaiting_handoff`). A task that has ended
 * stays as it is: the target goes on from it in a run of its own. Throws 404 for an unknown task or agent; 409 for
 * another agent's task, a delegated, cancelled or already waiting one, and as `writeHandoff` does; 422 for a wrong
 * checksum or an unknown version.
 */
export async function createHandoff<T>(
  context: Context,
  request: HandoffRequest,
  present: (row: HandoffRow, tx: Tx) => Promise<T>,
): Promise<IdempotentAnswer<T>> {
  checkContext(request);
  const told = await tell(context, request);
  let written: Written | undefined;
  const answer = await idempotently<T>(context, request.idempotency, async (tx) => {
    written = await write(tx, { ...request, told });
    return { status: 201, body: await present(written.row, tx) };
  });
  if (written?.appended) announceAppended(context, { ...written.appended, runId: written.appended.run.id });
  announceCancelled(context, written?.cancelled ?? []);
  return answer;
}

/** Asks a model before anything is locked; checks whether the handoff is allowed come later. */
async function tell(context: Context, request: HandoffRequest): Promise<string | undefined> {
  const { tenantId, workspaceId } = request.caller;
  const handing = await context.db.withTenant(tenantId, async (tx) => {
    const source = await findAgent(tx, request.sourceAgentId, workspaceId);
    const target = await findAgent(tx, request.targetAgentId, workspaceId);
    const task = await findTask(tx, request.taskId);
    if (!source || !target || !task?.run_id || task.workspace_id !== workspaceId) return undefined;
    // A repeated request, or one that will be refused.
    if (task.assigned_agent_id !== source.id || task.status === 'awaiting_handoff') return undefined;
    const targetTokens = handoffTokens(target, request.targetTokens);
    return { tenantId, source, runId: task.run_id, context: request.context, targetTokens };
  });
  return handing && summarizeHistory(context, handing);
}

function checkContext({ context, sent, checksum, schemaVersion }: HandoffRequest): void {
  const versions = [
    ['body.schema_version', schemaVersion],
    ['body.context.schema_version', context.schema_version],
  ] as const;
  for (const [path, version] of versions) {
    if (version === undefined || isKnownSchema(version)) continue;
    throw impossible(`There is no version "${version}" of the handoff context; this is 1.0.`, [
      { path, message: 'is not known' },
    ]);
  }
  if (checksum === undefined || checksum.toLowerCase() === digestOf(sent)) return;
  throw impossible('The checksum is not that of the context: SHA-256 over its canonical JSON (RFC 8785), in hex.', [
    { path: 'body.checksum', message: 'does not fit the context' },
  ]);
}

async function write(tx: Tx, request: ToldRequest): Promise<Written> {
  const { caller } = request;
  const { tenantId } = caller;
  const source = await findAgent(tx, request.sourceAgentId, caller.workspaceId);
  if (!source) throw notFound('The source agent');
  const target = await findAgent(tx, request.targetAgentId, caller.workspaceId);
  if (!target) throw notFound('The target agent');
  const task = await findTask(tx, request.taskId);
  if (task?.workspace_id !== caller.workspaceId) throw notFound('The task');
  const cancelled: CancelledRun[] = [];
  let row: HandoffRow | undefined;
  const wish = { tenantId, request, source, target };
  const runId = task.workflow_id ?? task.parent_run_id ?? '';
  const appended = await appendIn(tx, { tenantId, runId }, async (run) => {
    // Read again now that its workflow is locked.
    const now = await findTask(tx, task.id);
    if (!now || isTerminal(run.status) || isTerminalTask(now)) return null;
    mustBeOf(now, source);
    if (now.workflow_id === null)
      throw conflict('The task was delegated: its result goes to the agent that waits for it.');
    row = await writeHandoff(tx, wishOf(wish, now, 'workflow'));
    if (now.run_id && now.status === 'in_progress') {
      cancelled.push(...(await cancelChild(tx, { tenantId, runId: now.run_id }, 'handed over')));
    }
    await handOverTask(tx, now.id);
    const event = initiated(row, run.open_turn_id);
    const job = { id: newId(), queue: SUBTASKS.name, at_position: true as const, payload: { tenantId, runId: run.id } };
    return { events: [{ ...event, actor: 'user' }], outbox: [job] };
  });
  row ??= await afterwards(tx, wish);
  const details = { source_agent_id: source.id, target_agent_id: target.id, task_id: task.id };
  await recordAudit(tx, caller, {
    action: 'handoff.initiated',
    target: ['handoff', row.id],
    digest: row.checksum,
    details,
  });
  return { row, appended: appended ?? undefined, cancelled };
}

/** `told`: a model's summary of the conversation. */
type ToldRequest = HandoffRequest & { told: string | undefined };

interface Wanted {
  tenantId: string;
  request: ToldRequest;
  source: AgentRow;
  target: AgentRow;
}

/** An ended task is not reopened: the target goes on in a run of its own. */
async function afterwards(tx: Tx, wanted: Wanted): Promise<HandoffRow> {
  const now = await findTask(tx, wanted.request.taskId);
  if (!now) throw notFound('The task');
  if (now.status === 'cancelled') throw conflict('The task is cancelled.');
  mustBeOf(now, wanted.source);
  return writeHandoff(tx, wishOf(wanted, now, 'run'));
}

function wishOf(
  { tenantId, request, source, target }: Wanted,
  task: TaskRow,
  carriedBy: 'workflow' | 'run',
): HandoffWish {
  return {
    tenantId,
    workspaceId: task.workspace_id,
    source: { agentId: source.id, runId: task.run_id },
    target,
    task,
    carriedBy,
    context: request.context,
    reason: request.reason,
    urgency: request.urgency,
    expectedAction: request.expectedAction ?? request.context.handoff_metadata?.expected_action ?? null,
    targetTokens: request.targetTokens,
    told: request.told,
    requestedBy: request.caller.keyId,
  };
}

/** The event for a new handoff. */
export function initiated(row: HandoffRow, turnId: string | null): Extract<NewEvent, { type: 'handoff.initiated' }> {
  return {
    type: 'handoff.initiated',
    actor: 'agent',
    turn_id: turnId ?? undefined,
    payload: {
      handoff_id: row.id,
      ...(row.task_id !== null && { task_id: row.task_id }),
      source_agent_id: row.source_agent_id,
      target_agent_id: row.target_agent_id,
      ...(row.tool_call_id !== null && { tool_call_id: row.tool_call_id }),
    },
  };
}

function isTerminalTask({ status }: TaskRow): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled';
}

function mustBeOf({ status, assigned_agent_id: assigned }: TaskRow, source: AgentRow): void {
  if (status === 'awaiting_handoff') throw conflict('The task is being handed over already.');
  if (assigned !== null && assigned !== source.id && status !== 'pending') {
    throw conflict('The task is that of another agent.', { assigned_agent_id: assigned });
  }
}
