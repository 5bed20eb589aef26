/** The run itself. `commit_run` applies its changes along with fence, position and lease. */
import { isTerminal, OUT_OF_BUDGET, type NewEvent } from '../events.ts';
import { NO_TOKENS, promptTokens, type TokenUsage } from '../model.ts';
import type { Columns, Place, Projection, RowChange } from './projection.ts';

export const runs: Projection<'runs'> = {
  table: 'runs',
  key: 'id',
  columns: [
    'id',
    'tenant_id',
    'workspace_id',
    'agent_id',
    'agent_version',
    'thread_id',
    'kind',
    'status',
    'waiting_for',
    'queued',
    'dequeued_id',
    'idle_since',
    'open_turn_id',
    'turn_count',
    'stop_reason',
    'error',
    'output_ordinal',
    'structured',
    'trust',
    'config',
    'metadata',
    'pinned',
    'keep_open',
    'lineage',
    'lineage_base',
    'base_length',
    'length',
    'steps',
    'tokens_in',
    'tokens_out',
    'cost_usd',
    'parent_run_id',
    'root_run_id',
    'parent_task_id',
    'depth',
    'forked_from_run_id',
    'forked_at_seq',
    'retried_from',
    'traceparent',
    'created_at',
    'started_at',
    'completed_at',
    'erased_at',
  ],
  // For drivers only, except the place, which logs of older builds lack.
  unlogged: [
    'thread_place',
    'last_seq',
    'fence',
    'checkpoint_seq',
    'driver_lease_expires_at',
    'lost_leases',
    'dormant',
    'output_bytes',
    'rolled_up',
    'updated_at',
  ],
  apply(place, event) {
    const change = changeOf(place, event);
    return change && { key: place.runId, ...change };
  },
};

type Change = Omit<RowChange, 'key'>;

function changeOf(place: Place, event: NewEvent): Change | undefined {
  switch (event.type) {
    case 'run.created':
      return { insert: newRun(place, event) };
    case 'run.forked':
      return { set: { turn_count: event.payload.turn_count } };
    case 'run.started':
      return { set: { started_at: place.at } };
    case 'run.status_changed':
      return { set: statusChanged(place, event) };
    case 'run.completed':
      return { set: { stop_reason: event.payload.stop_reason, error: null } };
    case 'run.failed':
      return { set: { stop_reason: stopReasonOf(event.payload.error), error: event.payload.error } };
    case 'run.cancelled':
      return { set: { stop_reason: 'cancelled' } };
    case 'run.erased':
      return { set: { erased_at: place.at } };
    case 'turn.started':
      return { set: { open_turn_id: event.turn_id, turn_count: event.payload.number, idle_since: null } };
    case 'turn.completed':
      return { set: { open_turn_id: null, ...outputOf(event) } };
    case 'turn.failed':
    case 'turn.interrupted':
      return { set: { open_turn_id: null } };
    case 'message.queued':
      return event.payload.read_at === undefined ? { set: { queued: event.payload } } : undefined;
    case 'message.dequeued':
      return { set: { dequeued_id: event.payload.message_id, length: event.payload.length } };
    case 'model.called':
      return typeof event.payload.tool_choice === 'object' ? undefined : { set: { length: event.payload.length } };
    case 'model.responded':
      if (event.payload.tool !== undefined) return { add: spentBy(event) };
      return { set: { length: event.payload.ordinal + (event.payload.tool_calls > 0 ? 2 : 1) }, add: spentBy(event) };
    case 'model.retried':
    case 'model.failed':
      return spentInVain(event);
    case 'node.entered':
      return { set: { length: event.payload.length }, add: { steps: stepsOf(event) } };
    case 'answer.rejected':
    case 'reflection.completed':
    case 'node.completed':
    case 'workflow.concluded':
      return { set: { length: event.payload.length } };
    case 'model.deferred':
      return { set: { waiting_for: waitForProvider(event) } };
    case 'model.resumed':
      return { set: { waiting_for: null } };
    case 'client_tools.requested':
      return { set: { waiting_for: { type: 'tool_results' } } };
    case 'signal.received':
    case 'timer.fired':
      return event.payload.type === 'tool_results' ? { set: { waiting_for: null } } : undefined;
    default:
      return undefined;
  }
}

function outputOf({ payload }: Extract<NewEvent, { type: 'turn.completed' }>): Columns {
  const trust = payload.untrusted ? 'untrusted' : null;
  return { output_ordinal: payload.ordinal, structured: payload.structured ?? null, trust };
}

/** A run that waits in the middle of a turn does not become idle. */
function statusChanged({ at }: Place, event: Extract<NewEvent, { type: 'run.status_changed' }>): Columns {
  const { to, waiting_for } = event.payload;
  return {
    status: to,
    waiting_for: to === 'awaiting_human' ? (waiting_for ?? { type: 'user' }) : null,
    idle_since: to === 'awaiting_human' && !waiting_for ? at : null,
    ...(isTerminal(to) && { completed_at: at }),
  };
}

function waitForProvider({ payload }: Extract<NewEvent, { type: 'model.deferred' }>): Columns {
  const { error, since, next_at, until } = payload;
  return { type: 'provider', since, next_at, until, error };
}

/** The initial row of a run. */
export function newRun({ at, ...place }: Omit<Place, 'seq'>, { payload }: Extract<NewEvent, { type: 'run.created' }>) {
  return {
    ...payload,
    id: place.runId,
    tenant_id: place.tenantId,
    workspace_id: place.workspaceId,
    status: 'created' as const,
    turn_count: 0,
    length: payload.base_length,
    steps: 0,
    tokens_in: 0,
    tokens_out: 0,
    cost_usd: '0',
    idle_since: at,
    root_run_id: payload.root_run_id ?? place.runId,
    created_at: at,
    updated_at: at,
    last_seq: 0,
    fence: 0,
    dormant: false,
  };
}

/** Nodes that make a call count as a step. */
export function stepsOf({ payload }: Extract<NewEvent, { type: 'node.entered' }>): number {
  return payload.ordinal === undefined ? 0 : 1;
}

/** The stop reason of a run or turn that failed. */
export function stopReasonOf({ code }: { code: string }): string {
  return code === OUT_OF_BUDGET ? OUT_OF_BUDGET : 'failed';
}

/** What a failed attempt cost; undefined if nothing of an answer had come. */
export function spentInVain({
  payload,
}: Extract<NewEvent, { type: 'model.retried' | 'model.failed' }>): Pick<Change, 'add'> | undefined {
  const { usage, cost_usd = null } = payload;
  return usage && { add: { ...tokensOf(usage), cost_usd } };
}

/** What an answer adds to the sums of its run and turn. Recorded answers were paid for elsewhere. */
export function spentBy({ payload }: Extract<NewEvent, { type: 'model.responded' }>): Columns {
  const tokens = tokensOf(payload.recorded ? NO_TOKENS : payload.usage);
  return { steps: payload.tool === undefined ? 1 : 0, ...tokens, cost_usd: payload.cost_usd };
}

function tokensOf(spent: TokenUsage): Columns {
  return { tokens_in: promptTokens(spent), tokens_out: spent.output };
}
