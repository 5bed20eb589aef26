/** A run's log in the hands of its writer: what is committed, and what the next commit adds. */
import { atSeq, checkEvent, type NewEvent } from '../../core/events.ts';
import { fold, type RunState } from '../../core/state.ts';
import type { MessageRow, UnreadMessages } from '../../db/claim-run.ts';
import type { CallChange, NewCall, NewWait, ReservationChange } from '../../db/commit-run.ts';
import { chainOf } from './checkpoint.ts';
import type { CachedRun } from './run-cache.ts';

/** The contents of the next commit, which is atomic. */
export interface Pending {
  events: NewEvent[];
  messages: MessageRow[];
  newCalls: NewCall[];
  calls: CallChange[];
  waits: NewWait[];
  closedWaits: string[];
  checkpoint: { id: string; trigger: 'turn_complete' | 'tool_result' } | null;
  reservations: ReservationChange[];
  /** The rate limiter of the announced model: the commit returns its back-off. */
  rateLimiter: string | null;
}

export interface RunLog {
  /** `base` is the committed state; `state` includes pending changes. */
  base: RunState;
  state: RunState;
  /** Time of the last event of `base`; undefined if it was loaded from a checkpoint. */
  at: string | undefined;
  /** The conversation after `before`, including pending messages. */
  messages: MessageRow[];
  /** The unread beginning of the conversation, which models do not get any more. */
  before: UnreadMessages;
  /** Ids of all tool uses in `messages`. */
  toolUseIds: Set<string>;
  pending: Pending;
  lastCheckpointId: string | null;
  stepsAtCheckpoint: number;
}

/** A committed position of a run. */
export type Position = Omit<CachedRun, 'at'> & { at: string | undefined };

/** Opens a run's log at a position, with nothing pending. */
export function openLog({ state, at, messages, before, lastCheckpointId, stepsAtCheckpoint }: Position): RunLog {
  const log = { base: state, state, at, messages: [...messages], before, pending: nothing() };
  return { ...log, toolUseIds: new Set(messages.flatMap(toolUsesOf)), lastCheckpointId, stepsAtCheckpoint };
}

const nothing = (): Pending => ({
  events: [],
  messages: [],
  newCalls: [],
  calls: [],
  waits: [],
  closedWaits: [],
  checkpoint: null,
  reservations: [],
  rateLimiter: null,
});

/** Number of messages in the conversation, including pending ones. */
export function lengthOf({ before, messages }: Pick<RunLog, 'before' | 'messages'>): number {
  return before.messages + messages.length;
}

/** The committed part as a cache entry; undefined if nothing would distinguish it from another log. */
export function toCachedRun(log: RunLog): CachedRun | undefined {
  const { at, base: state, before, lastCheckpointId, stepsAtCheckpoint, pending } = log;
  if (at === undefined) return undefined;
  const messages = log.messages.slice(0, log.messages.length - pending.messages.length);
  return { at, state, messages, before, lastCheckpointId, stepsAtCheckpoint };
}

/** Adds events to the next commit, and folds them into the state. */
export function appendEvent(log: RunLog, ...events: NewEvent[]): void {
  for (const event of events) {
    log.pending.events.push(checkEvent(event));
    log.state = fold(log.state, atSeq(event, log.state.seq + 1));
  }
}

/** Appends a message; the event to go with it must tell the new length. Returns its ordinal. */
export function appendMessage(log: RunLog, message: Omit<MessageRow, 'ordinal' | 'chain'>): number {
  const ordinal = lengthOf(log);
  const chain = chainOf(log.messages.at(-1)?.chain ?? log.before.chain, message);
  const row = { ...message, ordinal, chain };
  log.messages.push(row);
  log.pending.messages.push(row);
  for (const id of toolUsesOf(row)) log.toolUseIds.add(id);
  return ordinal;
}

/** Drops messages not counted by any event, since the next turn needs their ordinals. */
export function dropUncounted(log: RunLog): void {
  const { length } = log.state;
  const isCounted = ({ ordinal }: { ordinal: number }) => ordinal < length;
  log.messages = log.messages.filter(isCounted);
  log.pending.messages = log.pending.messages.filter(isCounted);
}

/** Inserts a ledger row with the next commit. */
export function insertCall(log: RunLog, row: NewCall): void {
  log.pending.newCalls.push(row);
}

/** Changes a ledger row with the next commit, even one that the same commit inserts. */
export function changeCall(log: RunLog, change: CallChange): void {
  const inserted = findInserted(log, change.id);
  if (inserted) Object.assign(inserted, change.set);
  else log.pending.calls.push(change);
  showOutcome(log, change);
}

/** A call's row that the next commit will insert; undefined if the ledger already has it. */
export function findInserted({ pending }: RunLog, id: string): NewCall | undefined {
  return pending.newCalls.find((row) => row.id === id);
}

/** Applies a ledger change to the conversation. */
function showOutcome(log: RunLog, change: CallChange): void {
  const row = log.messages.findLast((message) => message.outcomes && change.id in message.outcomes);
  if (!row?.outcomes) return;
  const { status, output = null, is_error = null, model_output: content } = change.set;
  // The whole output is not kept in memory if the model gets something else.
  if (status)
    row.outcomes[change.id] = content ? { status, output: null, content, is_error } : { status, output, is_error };
}

/** A snapshot of pending changes. */
type Mark = Readonly<Pending>;

/** Marks the pending changes, to return to them. */
export function mark({ pending }: RunLog): Mark {
  return cutTo(pending, pending);
}

/** Removes what was appended after a mark, so that it can be appended again. */
export function rewind(log: RunLog, point: Mark): void {
  const dropped = log.pending.messages.length - point.messages.length;
  log.messages = log.messages.slice(0, log.messages.length - dropped);
  const kept = cutTo(log.pending, point);
  log.pending = { ...kept, events: [] };
  log.state = log.base;
  appendEvent(log, ...kept.events);
}

/** Cuts pending lists to their lengths at a mark; other fields are the mark's. */
function cutTo(pending: Mark, point: Mark): Pending {
  return {
    ...point,
    events: pending.events.slice(0, point.events.length),
    messages: pending.messages.slice(0, point.messages.length),
    newCalls: pending.newCalls.slice(0, point.newCalls.length),
    calls: pending.calls.slice(0, point.calls.length),
    waits: pending.waits.slice(0, point.waits.length),
    closedWaits: pending.closedWaits.slice(0, point.closedWaits.length),
    reservations: pending.reservations.slice(0, point.reservations.length),
  };
}

/** Reapplies pending changes on top of what others have appended. */
export function rebase(log: RunLog, { state, at, messages, before }: Position): void {
  const { pending } = log;
  log.base = state;
  log.state = state;
  log.at = at;
  log.before = before;
  log.messages = [...messages, ...pending.messages];
  log.pending = { ...pending, events: [] };
  appendEvent(log, ...pending.events);
  for (const change of pending.calls) showOutcome(log, change);
}

/**
 * The messages for the next commit: those counted by its events. Without the event that tells the new length, a successor
 * would find more messages than its log has.
 */
export function countedMessages({ pending, state }: RunLog): MessageRow[] {
  return pending.messages.filter(({ ordinal }) => ordinal < state.length);
}

/** Marks pending changes as committed; `at`: time of the last event, if any. Uncounted messages stay pending. */
export function advance(log: RunLog, at: string | undefined): void {
  const { checkpoint, messages } = log.pending;
  log.base = log.state;
  if (at !== undefined) log.at = at;
  if (checkpoint) {
    log.lastCheckpointId = checkpoint.id;
    log.stepsAtCheckpoint = log.state.steps;
  }
  log.pending = { ...nothing(), messages: messages.filter(({ ordinal }) => ordinal >= log.state.length) };
}

function toolUsesOf({ content }: Pick<MessageRow, 'content'>): string[] {
  return content.flatMap((block) => (block.type === 'tool_use' ? [block.id] : []));
}
