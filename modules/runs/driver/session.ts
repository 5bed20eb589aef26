/** A driver's hold on one run: its warm state, and what it has not committed yet. */
import type { BudgetStanding } from '../../../core/budget.ts';
import type { AgentDefinition } from '../../../core/definition.ts';
import type { RunLimits } from '../../../core/decide.ts';
import { atSeq, checkEvent, type NewEvent } from '../../../core/events.ts';
import { fold, type RunState } from '../../../core/state.ts';
import type { ToolDefinition } from '../../../core/tool.ts';
import type { Governance } from '../../governance/governance.ts';
import type { CallOutcome, MessageRow, RunRow } from '../../../db/claim-run.ts';
import type { CallChange, NewWait, ReservationChange } from '../../../db/commit-run.ts';
import type { InitialCommit } from '../../../jobs/slot-reservation.ts';
import { chainOf } from '../../run-log/checkpoint.ts';
import type { Context } from '../../governance/context.ts';
import type { CachedRun } from '../../run-log/run-cache.ts';
import type { OwnCall } from './commit-attempts.ts';
import type { Reservation } from './hold-to-budget.ts';
import type { PartialAnswer } from './partial-answer.ts';
import type { ReplaySource } from './replay-source.ts';

export interface Pending {
  events: NewEvent[];
  messages: MessageRow[];
  newCalls: Record<string, unknown>[];
  calls: CallChange[];
  waits: NewWait[];
  closedWaits: string[];
  checkpoint: { id: string; trigger: 'turn_complete' | 'tool_result' } | null;
  reservations: ReservationChange[];
  /** The gate of the model that is announced: the commit says how long it is shut. */
  gate: { name: string; step: number } | null;
}

export interface DriveSession {
  /** Until the run is created, by the first commit. */
  initialCommit: InitialCommit | null;
  context: Context;
  tenantId: string;
  run: RunRow;
  fence: number;
  definition: AgentDefinition;
  tools: ReadonlyMap<string, ToolDefinition>;
  limits: RunLimits;
  traceparent: string | undefined;
  /** The state as committed, and with what is pending on top. */
  base: RunState;
  state: RunState;
  /** Time of the event that `base` ends with; undefined where a checkpoint stood in its place. */
  at: string | undefined;
  /** The whole conversation, pending messages included. */
  messages: MessageRow[];
  pending: Pending;
  /** The tenant's policies and the like, as the pending calls were gated by them. */
  governance: Governance;
  /** By which version of it calls passed the gate that this driver has asked for; a call that a person let pass has none. */
  gatedAt: Map<string, number>;
  /** What was heard over the bus and not looked at yet. */
  news: { governance: boolean };
  /** Gates the pending calls again, by the governance of the session as it is then. */
  reauthorize: (() => Promise<void>) | null;
  lastCheckpointId: string | null;
  stepsAtCheckpoint: number;
  /** Ids of all tool uses in the conversation: a model that repeats one gets another. */
  toolUseIds: Set<string>;
  /** The answer that a model is writing, until a commit has it. */
  partial: PartialAnswer | null;
  /** Calls that this driver makes itself, as far as it has asked for them or looked at them. */
  ownCalls: Map<string, OwnCall>;
  /** What a run that was forked from another may take from its record. */
  replaySource: ReplaySource | null;
  /** How long the gate of the next model call was shut when that call was announced, in ms. */
  gate: { name: string; step: number; waitMs: number } | null;
  /** Prompt tokens that the gate has let through for the next call. */
  passedTokens: number;
  /** A budget applies to the run: looked up before each model call. */
  budgeted: boolean;
  /** What is set aside for the next model call. */
  reserved: Reservation | null;
  /** The budget that the last answer has used up: its calls are not made. */
  usedUp: BudgetStanding | undefined;
  /** Fires when the run was cancelled, the lease was lost, or the process must stop. */
  signal: AbortSignal;
  startedAtMs: number;
}

export const noPending = (): Pending => ({
  events: [],
  messages: [],
  newCalls: [],
  calls: [],
  waits: [],
  closedWaits: [],
  checkpoint: null,
  reservations: [],
  gate: null,
});

/** What of the session is committed, for a later drive to go on from. */
export function toCachedRun(session: DriveSession): CachedRun | undefined {
  const { at, base: state, lastCheckpointId, stepsAtCheckpoint, pending } = session;
  if (at === undefined) return undefined;
  const messages = session.messages.slice(0, session.messages.length - pending.messages.length);
  return { at, state, messages, lastCheckpointId, stepsAtCheckpoint };
}

/** Adds events to what the next commit writes, and folds them into the warm state. */
export function appendEvent(session: DriveSession, ...events: NewEvent[]): void {
  for (const event of events) {
    session.pending.events.push(checkEvent(event));
    session.state = fold(session.state, atSeq(event, session.state.seq + 1));
  }
}

/** Takes back what was recorded after a point: what depended on it is recorded anew. */
export function rewindTo(session: DriveSession, point: Pending): void {
  const { pending } = session;
  const dropped = pending.messages.length - point.messages.length;
  session.messages = session.messages.slice(0, session.messages.length - dropped);
  const events = pending.events.slice(0, point.events.length);
  session.pending = {
    events: [],
    messages: pending.messages.slice(0, point.messages.length),
    newCalls: pending.newCalls.slice(0, point.newCalls.length),
    calls: pending.calls.slice(0, point.calls.length),
    waits: pending.waits.slice(0, point.waits.length),
    closedWaits: pending.closedWaits.slice(0, point.closedWaits.length),
    checkpoint: point.checkpoint,
    reservations: pending.reservations.slice(0, point.reservations.length),
    gate: point.gate,
  };
  session.reserved = null;
  session.state = session.base;
  appendEvent(session, ...events);
}

/** What is pending now, as a point to come back to. */
export function pointOf({ pending }: DriveSession): Pending {
  const { events, messages, newCalls, calls, waits, closedWaits, checkpoint, reservations, gate } = pending;
  return {
    events: [...events],
    messages: [...messages],
    newCalls: [...newCalls],
    calls: [...calls],
    waits: [...waits],
    closedWaits: [...closedWaits],
    checkpoint,
    reservations: [...reservations],
    gate,
  };
}

/** Appends a message to the conversation; only the driver does. The event that goes with it tells the new length. */
export function append(session: DriveSession, message: Pick<MessageRow, 'role' | 'content' | 'outcomes'>): number {
  const ordinal = session.messages.length;
  const chain = chainOf(session.messages[ordinal - 1]?.chain ?? '', message);
  const row = { ...message, ordinal, chain };
  session.messages.push(row);
  session.pending.messages.push(row);
  return ordinal;
}

/** Changes a row of the ledger with the next commit, one that this commit is to insert, too. */
export function changeCall(session: DriveSession, change: CallChange): void {
  const inserted = session.pending.newCalls.find((row) => row['id'] === change.id);
  if (inserted) Object.assign(inserted, change.set);
  else session.pending.calls.push(change);
  showOutcome(session, change);
}

/** Shows a ledger change in the warm conversation. */
export function showOutcome(session: DriveSession, change: CallChange): void {
  const row = session.messages.findLast((message) => message.outcomes && change.id in message.outcomes);
  if (!row?.outcomes) return;
  const { status, output = null, is_error = null } = change.set as Partial<CallOutcome>;
  if (status) row.outcomes[change.id] = { status, output, is_error };
}
