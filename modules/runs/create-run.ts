/** Starts a run of an agent, on a new thread or an existing one. One commit, then one job. */
import { unavailable } from '../../core/errors.ts';
import {
  checkEvent,
  type NewEvent,
  type PinnedLimits,
  type PinnedTool,
  type RunKind,
  type TurnInput,
} from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import { keptConfig, type RequestedConfig, type RunConfig } from '../../core/run-config.ts';
import type { Tx } from '../../db/database.ts';
import type { RunRow } from '../../db/claim-run.ts';
import { mustCommitRun, type CommitResult, type OutboxRow, type RunChange } from '../../db/commit-run.ts';
import type { Start } from '../agents/start-cache.ts';
import type { Context } from '../governance/context.ts';
import type { Governance } from '../governance/governance.ts';
import { toClaim, type NewRun } from './driver/initial-commit.ts';
import type { InitialCommit, SlotReservation } from '../../jobs/slot-reservation.ts';
import { SUBTASKS } from '../../jobs/subtasks.ts';
import { TURNS, type TurnJob } from '../../jobs/turns.ts';
import type { Previous } from './conversation-before.ts';
import { writeOnThread, type OnThread } from './creation/named-thread.ts';
import { onNewThread, placeOn, type PlaceOnThread } from './creation/place-on-thread.ts';
import { carriedFields, asChild, inheritedFrom, onItsOwn, runCreated, type Parent } from './creation/run-created.ts';
import { atLevelOf, checkAutonomy, cachedStart, limitsOf, readStart, startUnder } from './creation/agent-for-run.ts';
import { withinSession } from './creation/within-session.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';
import { toRunChange } from '../run-log/run-change.ts';
import { takeAlong } from './message-queue.ts';
import type { HeldSlot, WrittenRun } from './written-run.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';

export interface CreateRun extends OnThread {
  tenantId: string;
  agentId: string;
  /** If there is no thread of this id, the run begins it. */
  beginsThread?: boolean;
  /** It carries on a handoff of the thread's conversation. */
  takesHandoffOn?: boolean;
  /** Its input is the message left waiting in the run before it; otherwise that message is carried along, and waits in this run. */
  beginsWithWaiting?: boolean;
  /** Ids of the run and its thread, if something was stored under them before. */
  runId?: string | undefined;
  newThreadId?: string | undefined;
  input?: TurnInput | undefined;
  config: RequestedConfig & Pick<RunConfig, 'session' | 'for_user'>;
  metadata?: Record<string, string> | undefined;
  /** Whether the caller may raise the autonomy level above the agent's. */
  mayRaiseAutonomy: boolean;
  /** The autonomy level comes from an earlier run: lowered to the agent's current one, unless the caller may raise it. */
  carriesAutonomy?: true;
  /** `agent` if absent. */
  kind?: RunKind;
  /** A child works on its parent's task; `attempt` counts from 0. */
  child?: { parent: Parent; taskId: string; attempt: number };
  /** The run that it repeats. It is paid from the same budget, unless it brings its own. A retry takes that run's place on the thread. */
  again?: { of: Pick<RunRow, 'id' | 'root_run_id'>; isRetry: boolean; bringsBudget: boolean };
  /** The requesting key. */
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
 * Creates the run and its first turn. Throws 404 for an unknown agent or thread; 409 for a deprecated agent, a thread with an
 * unfinished run, or a deleted session's thread; 422 for an unknown model or version.
 */
export async function createRun(context: Context, request: CreateRun): Promise<IdempotentAnswer<CreatedRun>> {
  context.models.resolve(request.config.model_override ?? undefined);
  // If no thread and no key must be looked up, the run is a single change, batched with those of the drivers.
  const isAlone = request.threadId === undefined && request.threadName === undefined;
  if (isAlone && request.idempotency.key === undefined) return createAtOnce(context, request);
  let written: Announcement | undefined;
  const answer = await idempotently<CreatedRun>(context, request.idempotency, async (tx) => {
    const made = await writeOnThread(tx, request, (placed) => writeRun(context, tx, placed));
    written = made.written;
    return { status: statusOf(request), body: made.body };
  });
  if (written) announceAppended(context, written);
  return answer;
}

const statusOf = ({ input }: Pick<CreateRun, 'input'>) => (input ? 202 : 201);

/** An attempt fails only if the tenant's policies, agents or tools change while the run is being written. */
const MOST_ATTEMPTS = 20;

async function createAtOnce(context: Context, request: CreateRun): Promise<IdempotentAnswer<CreatedRun>> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    const { start, policyEpoch } = await cachedStart(context, request);
    checkAutonomy(request.config.autonomy_level, start, request.mayRaiseAutonomy);
    const limits = limitsOf(context, start.definition, request.config.model_override);
    const made = newRun(request, { ...start, limits }, onNewThread());
    const result = await commitNew(context, made, policyEpoch);
    if (result.ok) return { status: statusOf(request), body: made.body, replayed: false };
    if (result.why !== 'policy_epoch') throw new Error(`run ${made.run.id} could not be created: ${result.why}`);
    context.governance.forget(request.tenantId);
  }
  throw new Error(`the governance of tenant ${request.tenantId} kept changing`);
}

/** If this process has room to drive the run, the driver creates it; otherwise it is created along with its job. */
async function commitNew(context: Context, made: PreparedRun, policyEpoch: number): Promise<CommitResult> {
  const slot = made.job && context.outbox.reserveSlot(made.job.tenantId);
  if (made.job && slot) return driveNew(context, { ...made, job: made.job, slot, policyEpoch });
  const change = changeOf(made);
  const result = await context.commit({ ...change, policy_epoch: policyEpoch });
  // Nobody knows of the run yet: only its job is sent.
  if (result.ok && change.outbox.length > 0) void context.outbox.send(change.run_id, result, change.outbox);
  return result;
}

function driveNew(context: Context, made: PreparedRun & DrivenAtOnce): Promise<CommitResult> {
  const { run, events, thread, job, slot, policyEpoch } = made;
  return new Promise((resolve, reject) => {
    let isAnswered = false;
    const written = (result: CommitResult) => {
      isAnswered = true;
      resolve(result);
    };
    const initialCommit: InitialCommit = { events, thread, policyEpoch, written, failed: reject };
    const driven = context.outbox.drive(
      slot,
      { ...job, seq: events.length },
      { claimed: toClaim(run, initialCommit), initialCommit },
    );
    // Only a process that is about to stop ends a drive before its first commit, without an error.
    const leave = () => {
      if (!isAnswered) reject(unavailable('This process is stopping; the request may be sent again.'));
    };
    driven.then(leave, reject);
  });
}

/**
 * Like `createRun`, in the caller's transaction; the caller announces the result. `start`: already read, or for a run without
 * an agent. `moreTools`: in addition to the agent's.
 */
export async function writeRun(
  context: Pick<Context, 'models'>,
  tx: Tx,
  request: PrepareRun & { start?: Start },
): Promise<{ body: CreatedRun; written: Announcement }> {
  const start = request.start ?? (await readStart(tx, request));
  const { body, write } = prepare(context, { ...request, start }, await placeOn(tx, request));
  return { body, written: await write(tx) };
}

type PrepareRun = Omit<CreateRun, 'idempotency'> & {
  moreTools?: readonly PinnedTool[];
  /** The conversation on which a run with a thread of its own stands. */
  after?: Previous | undefined;
};

/** A run ready to be written in a transaction: it is fully validated. */
export interface ReadyRun {
  body: CreatedRun;
  /** With `held`, the run is claimed when created, to be driven in that slot after the commit. */
  write: (tx: Tx, held?: HeldSlot) => Promise<WrittenRun>;
}

/** Prepares a run on a thread of its own. Throws as `createRun` does; `under.governance`: as read by the transaction. */
export async function prepareRun(
  context: Pick<Context, 'models' | 'starts'>,
  under: { tx: Tx; governance: Governance },
  request: PrepareRun,
): Promise<ReadyRun> {
  const start = await startUnder(context, under, request);
  return prepare(context, { ...request, start }, onNewThread(request));
}

function prepare(
  context: Pick<Context, 'models'>,
  request: PrepareRun & { start: Start },
  place: PlaceOnThread,
): ReadyRun {
  const start = withTools(request.start, request.moreTools ?? []);
  const isLowered = request.carriesAutonomy && !request.mayRaiseAutonomy;
  const config = isLowered ? atLevelOf(request.config, start) : request.config;
  checkAutonomy(config.autonomy_level, start, request.mayRaiseAutonomy);
  const limits = limitsOf(context, start.definition, config.model_override);
  const within = withinSession(config, start.definition, place.session);
  const made = newRun({ ...request, config: within }, { ...start, limits }, place);
  const write = async (tx: Tx, held?: HeldSlot): Promise<WrittenRun> => {
    if (held && made.job) return writeHeld(tx, { ...made, job: made.job }, held);
    const change = changeOf(made);
    return announcement(change, await mustCommitRun(tx, change, 'query'));
  };
  return { body: made.body, write };
}

async function writeHeld(
  tx: Tx,
  made: PreparedRun & Pick<DrivenAtOnce, 'job'>,
  { slot, leaseMs, policyEpoch }: HeldSlot,
): Promise<WrittenRun> {
  const { run, events, job } = made;
  const sinceMs = performance.now();
  const { create, ...change } = changeOf({ ...made, job: undefined });
  const claimed = { ...change, create: { ...create, fence: FIRST_FENCE }, lease_ms: leaseMs };
  const result = await mustCommitRun(tx, claimed, 'query');
  const from = { claimed: toClaim(run, { events, policyEpoch, at: result.at }), sinceMs };
  return { ...announcement(change, result), driver: { slot, job: { ...job, seq: events.length }, from } };
}

/** Fence of a run claimed when created. */
const FIRST_FENCE = 1;

function withTools(start: Start, more: readonly PinnedTool[]): Start {
  const added = more.filter(({ id }) => start.tools.every((tool) => tool.id !== id));
  return added.length === 0 ? start : { ...start, tools: [...start.tools, ...added] };
}

interface PreparedRun {
  run: NewRun;
  /** The new thread's row; undefined if the thread exists. */
  thread: Record<string, unknown> | undefined;
  events: NewEvent[];
  /** Undefined if no turn begins with the run. */
  job: Omit<TurnJob, 'seq'> | undefined;
  child: CreateRun['child'];
  /** The job's queue, and the basis of its id. */
  sentTo: { queue: string } & ({ job_id: string } | { at_position: true });
  body: CreatedRun;
}

interface DrivenAtOnce {
  job: Omit<TurnJob, 'seq'>;
  slot: SlotReservation;
  policyEpoch: number;
}

type Creation = RunChange & { outbox: OutboxRow[] };

function changeOf({ run, thread, events, job, sentTo, child }: PreparedRun): Creation {
  const payload = job && { ...job, ...(child && { taskId: child.taskId }) };
  const outbox: OutboxRow[] = payload ? [{ id: newId(), ...sentTo, payload }] : [];
  return { ...toRunChange({ ...run, last_seq: 0 }, events.map(checkEvent)), ...(thread && { thread }), outbox };
}

function announcement(
  { run_id: runId, outbox }: Creation,
  { seq, fence }: { seq: number; fence: number },
): Announcement {
  return { runId, seq, fence, outbox };
}

type PinnedStart = Start & { limits: PinnedLimits | undefined };

function newRun(request: Omit<CreateRun, 'idempotency'>, start: PinnedStart, place: PlaceOnThread): PreparedRun {
  const { tenantId, traceparent, input } = request;
  const runId = request.runId ?? newId();
  const threadId = request.threadId ?? request.newThreadId ?? newId();
  const turnId = newId();
  const created = createdEvent(request, { threadId, start, ...place });
  const events: NewEvent[] = [created];
  if (input) {
    const { requestedBy } = request;
    const turn = { number: 1, input, ...(requestedBy !== undefined && { requested_by: requestedBy }) };
    events.push({ type: 'turn.started', actor: 'user', turn_id: turnId, payload: turn });
  }
  const { child, kind } = request;
  // Nobody reads a message in a workflow: it waits there for the thread's next run.
  const keepOpen = created.payload.keep_open || kind === 'workflow';
  events.push(...takeAlong(place.waiting, { turnId: input && turnId, keepOpen }));
  const job = input && { tenantId, runId, turnId, ...(traceparent && { traceparent }) };
  const owner = { tenant_id: tenantId, workspace_id: request.workspaceId };
  const ids = { run_id: runId, thread_id: threadId };
  const isNew = place.isFirst ?? false;
  return {
    run: { ...owner, id: runId, lineage: created.payload.lineage },
    thread: isNew
      ? {
          ...owner,
          id: threadId,
          agent_id: request.agentId,
          created_at: 'now',
          ...(child && { parent_run_id: child.parent.id }),
        }
      : undefined,
    events,
    job,
    child,
    sentTo: child
      ? { queue: SUBTASKS.name, job_id: SUBTASKS.id(child) }
      : { queue: kind === 'workflow' ? SUBTASKS.name : TURNS.name, at_position: true },
    body: input ? { ...ids, turn_id: turnId, status: 'running' } : { ...ids, status: 'created' },
  };
}

type Created = Extract<NewEvent, { type: 'run.created' }>;

function createdEvent(
  request: Omit<CreateRun, 'idempotency'>,
  parts: { threadId: string; start: PinnedStart } & PlaceOnThread,
): Created {
  const { child, kind, config } = request;
  return runCreated({
    agent_id: request.agentId,
    agent_version: parts.start.version,
    thread_id: parts.threadId,
    thread_place: parts.place,
    // A thread's runs share one lineage of messages: each starts at the end of the one before.
    lineage: parts.previous?.lineage ?? newId(),
    lineage_base: parts.previous?.lineage_base ?? [],
    base_length: parts.previous?.length ?? 0,
    keep_open: config.keep_open ?? request.input === undefined,
    config: keptConfig({ ...config, ...(child && inheritedFrom(child.parent)) }),
    ...(request.metadata && { metadata: request.metadata }),
    pinned: { tools: parts.start.tools, limits: parts.start.limits },
    ...(parts.previous?.context && { context: parts.previous.context }),
    ...carriedFields(parts.previous?.carried),
    ...(parts.previous?.isUnread && { untrusted: true }),
    ...(child ? asChild(child.parent, child.taskId) : onItsOwn(kind)),
    ...(request.again && againOf(request.again)),
    traceparent: request.traceparent,
  });
}

function againOf({ of, isRetry, bringsBudget }: NonNullable<CreateRun['again']>) {
  return {
    root_run_id: bringsBudget ? null : of.root_run_id,
    forked_from_run_id: of.id,
    retried_from: isRetry ? of.id : null,
  };
}
