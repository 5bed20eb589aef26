/** Starts a run of an agent on a new thread, or goes on with one. One transaction, then one job. */
import type { RunBudget } from '../core/budget.ts';
import { conflict, notFound } from '../core/errors.ts';
import { isTerminal, type NewEvent, type RunStatus } from '../core/events.ts';
import { newId } from '../core/ids.ts';
import type { Tx } from '../db/database.ts';
import { lastRunOfThread, lockThread } from '../db/runs.ts';
import { commitRunIn, type OutboxRow, type RunRow } from '../db/run-store.ts';
import type { Context } from '../engine/context.ts';
import { agentForRun, checkAutonomy } from './agent-for-run.ts';
import { announceAppended, toRunChange, type Announcement } from './append-to-run.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from './idempotency.ts';
import { pinTools } from './pin-tools.ts';

export interface TurnInput {
  message: string;
  attachments?: Record<string, unknown>[] | undefined;
}

export interface RunConfig {
  model_override?: string | undefined;
  stream?: boolean | undefined;
  agent_version?: string | undefined;
  max_turns?: number | undefined;
  keep_open?: boolean | undefined;
  autonomy_level?: number | undefined;
  budget?: RunBudget | undefined;
}

export interface CreateRun {
  tenantId: string;
  workspaceId: string;
  agentId: string;
  threadId?: string | undefined;
  input?: TurnInput | undefined;
  config: RunConfig;
  /** Whether the caller may raise the autonomy level above the agent's. */
  mayRaiseAutonomy: boolean;
  /** The key that asks. */
  requestedBy?: string | undefined;
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

export interface CreatedRun {
  run_id: string;
  thread_id: string;
  turn_id?: string;
  status: 'running' | 'created';
}

/**
 * Creates the run and its first turn. Throws 404 for an unknown agent or thread, 409 for a deprecated agent or a thread
 * with an unfinished run, 422 for a model or version that there is not.
 */
export async function createRun(context: Context, request: CreateRun): Promise<IdempotentAnswer<CreatedRun>> {
  context.models.resolve(request.config.model_override);
  let written: Announcement | undefined;
  const answer = await idempotently<CreatedRun>(context, request.idempotency, async (tx) => {
    const made = await writeRun(tx, request);
    written = made.written;
    return { status: request.input ? 202 : 201, body: made.body };
  });
  if (written) announceAppended(context, written);
  return answer;
}

/** The same in a transaction of the caller's, who announces afterwards what was written. */
export async function writeRun(
  tx: Tx,
  request: Omit<CreateRun, 'idempotency'>,
): Promise<{ body: CreatedRun; written: Announcement }> {
  const { agentId, workspaceId, config } = request;
  const { version, definition } = await agentForRun(tx, { agentId, workspaceId, version: config.agent_version });
  checkAutonomy(config.autonomy_level, definition, request.mayRaiseAutonomy);
  const previous = await previousRun(tx, request);
  const runId = newId();
  const threadId = request.threadId ?? newId();
  const turnId = newId();
  const created = createdEvent(request, { threadId, version, previous, tools: await pinTools(tx, definition) });
  const events: NewEvent[] = [created];
  if (request.input) {
    const turn = { number: 1, input: request.input, requested_by: request.requestedBy };
    events.push({ type: 'turn.started', actor: 'user', turn_id: turnId, payload: turn });
  }
  const { tenantId: tenant, traceparent } = request;
  const payload = { tenant, run: runId, turn: turnId, ...(traceparent && { traceparent }) };
  const outbox: OutboxRow[] = request.input ? [{ id: newId(), queue: 'turns', payload }] : [];
  const owner = { tenant_id: tenant, workspace_id: request.workspaceId };
  const result = await commitRunIn(tx, {
    ...toRunChange({ ...owner, id: runId, lineage: created.payload.lineage, last_seq: 0 }, events),
    ...(!request.threadId && { thread: { ...owner, id: threadId, agent_id: request.agentId, created_at: 'now' } }),
    outbox,
  });
  if (!result.ok) throw new Error(`run ${runId} could not be created: ${result.why}`);
  const ids = { run_id: runId, thread_id: threadId };
  return {
    body: request.input ? { ...ids, turn_id: turnId, status: 'running' } : { ...ids, status: 'created' },
    written: { runId, seq: result.seq, fence: result.fence, outbox },
  };
}

async function previousRun(tx: Tx, request: Omit<CreateRun, 'idempotency'>): Promise<RunRow | undefined> {
  if (!request.threadId) return undefined;
  const thread = await lockThread(tx, request.threadId);
  if (!thread || thread.workspace_id !== request.workspaceId) throw notFound('The thread');
  const last = await lastRunOfThread(tx, request.threadId);
  if (last && !isTerminal(last.status as RunStatus)) {
    throw conflict(`The thread has an unfinished run, ${last.id}.`, { run_id: last.id });
  }
  return last;
}

type Created = Extract<NewEvent, { type: 'run.created' }>;

function createdEvent(
  request: Omit<CreateRun, 'idempotency'>,
  parts: {
    threadId: string;
    version: string;
    previous: RunRow | undefined;
    tools: Created['payload']['pinned']['tools'];
  },
): Created {
  const { agent_version: _version, keep_open, ...config } = request.config;
  return {
    type: 'run.created',
    actor: 'user',
    payload: {
      agent_id: request.agentId,
      agent_version: parts.version,
      thread_id: parts.threadId,
      // A thread's runs share one lineage of messages: each starts where the one before ended.
      lineage: parts.previous?.lineage ?? newId(),
      lineage_base: parts.previous?.lineage_base ?? [],
      base_length: parts.previous?.length ?? 0,
      keep_open: keep_open ?? request.input === undefined,
      kind: 'agent',
      config: JSON.parse(JSON.stringify(config)) as Record<string, unknown>,
      pinned: { tools: parts.tools },
      depth: 0,
      parent_run_id: null,
      root_run_id: null,
      parent_task_id: null,
      forked_from_run_id: null,
      forked_at_seq: null,
      retried_from: null,
      traceparent: request.traceparent ?? null,
    },
  };
}
