/**
 * From an event to the rows that show it: the only definition of the projections `runs` and `turns`, and of what people decide.
 * Operational columns (`OPERATIONAL`) are not projected; everything else is rebuilt from the log by the same function.
 */
import { isTerminal, OUT_OF_BUDGET, type NewEvent } from './events.ts';
import { NO_TOKENS } from './model.ts';
import { planRow } from './project-plan.ts';

/** Columns of `runs` that the log does not define: they serve the drivers. */
export const OPERATIONAL = [
  'last_seq',
  'fence',
  'checkpoint_seq',
  'driver_lease_expires_at',
  'dormant',
  'updated_at',
] as const;

type Columns = Record<string, unknown>;

export interface TurnChange {
  id: string;
  insert?: Columns;
  set?: Columns;
  add?: Columns;
}

/** Rows and columns, as `commit_run` takes them. `set` replaces, `add` adds to what is there. */
export interface RowChanges {
  create?: Columns;
  /** `commit_run` inserts a new one and changes a known one. */
  approvals: Columns[];
  runs: { set: Columns; add: Columns };
  turns: TurnChange[];
  policy_decisions: Columns[];
  /** As approvals: a known one is changed. */
  plans: Columns[];
}

/** Which run, and when: `at` is `now` in a commit (Postgres reads it as its transaction's time), else the event's time. */
export interface ProjectionContext {
  tenantId: string;
  workspaceId: string;
  runId: string;
  lineage: string;
  /** Sequence number of the first event. */
  firstSeq: number;
  at: (index: number) => string;
}

/** Row changes of consecutive events, merged: a later `set` wins, `add`s sum up. */
export function project(context: ProjectionContext, events: readonly NewEvent[]): RowChanges {
  const changes: RowChanges = {
    approvals: [],
    runs: { set: {}, add: {} },
    turns: [],
    policy_decisions: [],
    plans: [],
  };
  events.forEach((event, index) => apply({ ...context, index, changes }, event));
  return changes;
}

/** The row that inserts a run: what the events create, as they leave it. */
export function createdRow({ create, runs }: RowChanges, lastSeq: number): Columns {
  return { ...create, ...runs.set, last_seq: lastSeq };
}

interface Place extends ProjectionContext {
  index: number;
  changes: RowChanges;
}

function apply(place: Place, event: NewEvent): void {
  const { changes } = place;
  const set = changes.runs.set;
  switch (event.type) {
    case 'run.created':
      changes.create = newRun(place, event);
      break;
    case 'run.forked':
      set['turn_count'] = event.payload.turn_count;
      break;
    case 'run.started':
      set['started_at'] = place.at(place.index);
      break;
    case 'run.status_changed':
      changeStatus(place, event);
      break;
    case 'run.completed':
      Object.assign(set, { stop_reason: event.payload.stop_reason, error: null });
      break;
    case 'run.failed':
      Object.assign(set, { stop_reason: failureOf(event.payload.error), error: event.payload.error });
      break;
    case 'run.cancelled':
      set['stop_reason'] = 'cancelled';
      break;
    case 'model.called':
      set['length'] = event.payload.length;
      break;
    case 'model.responded':
      responded(place, event);
      break;
    case 'policy.decided':
      changes.policy_decisions.push(policyDecision(place, event));
      break;
    case 'plan.proposed':
    case 'plan.approved':
    case 'plan.rejected':
    case 'plan.started':
    case 'plan.completed':
      changes.plans.push(planRow(place, event));
      break;
    case 'approval.requested':
    case 'approval.granted':
    case 'approval.denied':
    case 'approval.expired':
    case 'approval.settled':
      place.changes.approvals.push(approval(place, event));
      break;
    case 'client_tools.requested':
      turnChange(changes, event.turn_id ?? '').set = { status: 'awaiting_tool' };
      set['waiting_for'] = { type: 'tool_results' };
      break;
    case 'signal.received':
    case 'timer.fired':
      if (event.payload.type === 'tool_results') endClientWait(place, event);
      break;
    default:
      if (event.type.startsWith('turn.')) applyTurn(place, event);
  }
}

function failureOf({ code }: { code: string }): string {
  return code === OUT_OF_BUDGET ? OUT_OF_BUDGET : 'failed';
}

/** A run that waits in the middle of a turn is not idle: its turn waits for somebody, too, unless only time must pass. */
function changeStatus(place: Place, event: Extract<NewEvent, { type: 'run.status_changed' }>): void {
  const { to, from, waiting_for } = event.payload;
  const { set } = place.changes.runs;
  const at = place.at(place.index);
  const isIdle = to === 'awaiting_human' && !waiting_for;
  set['status'] = to;
  set['waiting_for'] = to === 'awaiting_human' ? (waiting_for ?? { type: 'user' }) : null;
  set['idle_since'] = isIdle ? at : null;
  if (isTerminal(to)) set['completed_at'] = at;
  if (!event.turn_id) return;
  if (waiting_for && waiting_for.type !== 'timer')
    turnChange(place.changes, event.turn_id).set = { status: 'awaiting_human' };
  else if (from === 'awaiting_human' && to === 'executing')
    turnChange(place.changes, event.turn_id).set = { status: 'running' };
}

/** The client has answered, or has had its time: its turn is under way again unless other calls are still the client's. */
function endClientWait(place: Place, event: NewEvent): void {
  if (event.turn_id) turnChange(place.changes, event.turn_id).set = { status: 'running' };
  place.changes.runs.set['waiting_for'] = null;
}

type ApprovalEvent = Extract<NewEvent, { type: `approval.${string}` }>;

function approval(place: Place, event: ApprovalEvent): Columns {
  const { payload } = event;
  const id = payload.approval_id;
  const decided = { id, decided_at: place.at(place.index) };
  switch (event.type) {
    case 'approval.requested': {
      const { approval_id: _, ...about } = event.payload;
      return {
        ...about,
        id,
        tenant_id: place.tenantId,
        run_id: place.runId,
        turn_id: event.turn_id,
        four_eyes: event.payload.four_eyes ?? false,
        status: 'pending',
        created_at: place.at(place.index),
      };
    }
    case 'approval.granted': {
      const { digest, policy, edited, decided_by } = event.payload;
      return { ...decided, status: 'approved', digest, policy, edited, decided_by };
    }
    case 'approval.denied': {
      const { reason, decided_by } = event.payload;
      return { ...decided, status: 'denied', reason, decided_by };
    }
    case 'approval.expired':
      return { ...decided, status: 'expired', reason: event.payload.reason };
    case 'approval.settled': {
      const { decision, reason, decided_by } = event.payload;
      return { ...decided, status: 'settled', decision, reason, decided_by };
    }
  }
}

function policyDecision(place: Place, event: Extract<NewEvent, { type: 'policy.decided' }>): Columns {
  const { tool_call_id, decision, stage, policy, reason } = event.payload;
  return {
    tenant_id: place.tenantId,
    run_id: place.runId,
    seq: place.firstSeq + place.index,
    turn_id: event.turn_id ?? null,
    tool_call_id,
    decision,
    stage,
    policy_id: policy?.id ?? null,
    policy_version: policy?.version ?? null,
    reason,
    created_at: place.at(place.index),
  };
}

function newRun(place: Place, event: Extract<NewEvent, { type: 'run.created' }>): Columns {
  const { payload } = event;
  const at = place.at(place.index);
  return {
    ...payload,
    id: place.runId,
    tenant_id: place.tenantId,
    workspace_id: place.workspaceId,
    status: 'created',
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

function responded(place: Place, event: Extract<NewEvent, { type: 'model.responded' }>): void {
  const { payload } = event;
  const { changes } = place;
  const spent = payload.recorded ? NO_TOKENS : payload.usage;
  const tokensIn = spent.input + spent.cache_read + spent.cache_write_5m + spent.cache_write_1h;
  const used = { steps: 1, tokens_in: tokensIn, tokens_out: spent.output, cost_usd: payload.cost_usd };
  changes.runs.set['length'] = payload.ordinal + (payload.tool_calls > 0 ? 2 : 1);
  changes.runs.add = sum(changes.runs.add, used);
  const turn = turnChange(changes, event.turn_id ?? '');
  turn.add = sum(turn.add ?? {}, used);
}

function applyTurn(place: Place, event: NewEvent): void {
  const id = event.turn_id ?? '';
  const at = place.at(place.index);
  const set = place.changes.runs.set;
  const turn = turnChange(place.changes, id);
  switch (event.type) {
    case 'turn.started':
      Object.assign(set, { open_turn_id: id, turn_count: event.payload.number, idle_since: null });
      turn.insert = {
        id,
        tenant_id: place.tenantId,
        run_id: place.runId,
        number: event.payload.number,
        status: 'running',
        input: event.payload.input,
        steps: 0,
        tokens_in: 0,
        tokens_out: 0,
        cost_usd: '0',
        created_at: at,
      };
      break;
    case 'turn.completed': {
      const { ordinal, stop_reason, checkpoint_id } = event.payload;
      Object.assign(set, { open_turn_id: null, output_ordinal: ordinal });
      turn.set = { status: 'complete', output_ordinal: ordinal, stop_reason, checkpoint_id, completed_at: at };
      break;
    }
    case 'turn.failed': {
      const { error, ordinal, checkpoint_id } = event.payload;
      const stop_reason = failureOf(error);
      set['open_turn_id'] = null;
      turn.set = { status: 'failed', error, stop_reason, output_ordinal: ordinal, checkpoint_id, completed_at: at };
      break;
    }
    case 'turn.interrupted':
      set['open_turn_id'] = null;
      turn.set = { status: 'cancelled', stop_reason: 'cancelled', completed_at: at };
      break;
    default:
  }
}

function turnChange(changes: RowChanges, id: string): TurnChange {
  const known = changes.turns.find((turn) => turn.id === id);
  if (known) return known;
  const made: TurnChange = { id };
  changes.turns.push(made);
  return made;
}

/** Adds up counts; money is added by the database in `numeric`, so two model calls never share a commit. */
function sum(left: Columns, right: Columns): Columns {
  const counts = ['steps', 'tokens_in', 'tokens_out'].map((key) => [
    key,
    Number(left[key] ?? 0) + Number(right[key] ?? 0),
  ]);
  if ('cost_usd' in left) throw new Error('two model calls in one commit');
  return { ...Object.fromEntries(counts), cost_usd: right['cost_usd'] };
}
