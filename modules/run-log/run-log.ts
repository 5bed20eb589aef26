/** A run's log in the hands of the one that writes it: what is committed, and what the next commit adds to it. */
import { atSeq, checkEvent, type NewEvent } from '../../core/events.ts';
import { fold, type RunState } from '../../core/state.ts';
import type { MessageRow, UnreadMessages } from '../../db/claim-run.ts';
import type { CallChange, NewCall, NewWait, ReservationChange } from '../../db/commit-run.ts';
import { chainOf } from './checkpoint.ts';
import type { CachedRun } from './run-cache.ts';

/** What the next commit writes: all of it or nothing. */
export interface Pending {
  events: NewEvent[];
  messages: MessageRow[];
  newCalls: NewCall[];
  calls: CallChange[];
  waits: NewWait[];
  closedWaits: string[];
  checkpoint: { id: string; trigger: 'turn_complete' | 'tool_result' } | null;
  reservations: ReservationChange[];
  /** The rate limiter of the model that is announced: the commit says how long it backs off. */
  rateLimiter: string | null;
}

export interface RunLog {
  /** The state as committed, and with what is pending on top. */
  base: RunState;
  state: RunState;
  /** Time of the event that `base` ends with; undefined if a checkpoint stood in its place. */
  at: string | undefined;
  /** The conversation after `before`, pending messages included. */
  messages: MessageRow[];
  /** What was not read of the conversation, since no model is sent it any more. */
  before: UnreadMessages;
  /** Ids of all tool uses in `messages`. */
  toolUseIds: Set<string>;
  pending: Pending;
  lastCheckpointId: string | null;
  stepsAtCheckpoint: number;
}

/** Where a run stands, committed. */
export type Position = Omit<CachedRun, 'at'> & { at: string | undefined };

/** The log of a run that stands at a position, with nothing pending. */
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

/** Messages of the conversation, pending ones included. */
export function lengthOf({ before, messages }: Pick<RunLog, 'before' | 'messages'>): number {
  return before.messages + messages.length;
}

/** The committed part as an entry of the run cache; undefined if nothing would tell it from another log. */
export function toCachedRun(log: RunLog): CachedRun | undefined {
  const { at, base: state, before, lastCheckpointId, stepsAtCheckpoint, pending } = log;
  if (at === undefined) return undefined;
  const messages = log.messages.slice(0, log.messages.length - pending.messages.length);
  return { at, state, messages, before, lastCheckpointId, stepsAtCheckpoint };
}

/** Adds events to what the next commit writes, and folds them into the state. */
export function appendEvent(log: RunLog, ...events: NewEvent[]): void {
  for (const event of events) {
    log.pending.events.push(checkEvent(event));
    log.state = fold(log.state, atSeq(event, log.state.seq + 1));
  }
}

/** Appends a message to the conversation; the event that goes with it tells the new length. Answers its place. */
export function appendMessage(log: RunLog, message: Omit<MessageRow, 'ordinal' | 'chain'>): number {
  const ordinal = lengthOf(log);
  const chain = chainOf(log.messages.at(-1)?.chain ?? log.before.chain, message);
  const row = { ...message, ordinal, chain };
  log.messages.push(row);
  log.pending.messages.push(row);
  for (const id of toolUsesOf(row)) log.toolUseIds.add(id);
  return ordinal;
}

/** Drops messages that no event has counted: the next turn's messages need their ordinals. */
export function dropUncounted(log: RunLog): void {
  const { length } = log.state;
  const isCounted = ({ ordinal }: { ordinal: number }) => ordinal < length;
  log.messages = log.messages.filter(isCounted);
  log.pending.messages = log.pending.messages.filter(isCounted);
}

/** Adds a row to the ledger with the next commit. */
export function insertCall(log: RunLog, row: NewCall): void {
  log.pending.newCalls.push(row);
}

/** Changes a row of the ledger with the next commit, one that this commit is to insert, too. */
export function changeCall(log: RunLog, change: CallChange): void {
  const inserted = findInserted(log, change.id);
  if (inserted) Object.assign(inserted, change.set);
  else log.pending.calls.push(change);
  showOutcome(log, change);
}

/** The row of a call that the next commit is to insert; undefined if the ledger has it already. */
export function findInserted({ pending }: RunLog, id: string): NewCall | undefined {
  return pending.newCalls.find((row) => row.id === id);
}

/** Shows a change of the ledger in the conversation. */
function showOutcome(log: RunLog, change: CallChange): void {
  const row = log.messages.findLast((message) => message.outcomes && change.id in message.outcomes);
  if (!row?.outcomes) return;
  const { status, output = null, is_error = null, model_output: content } = change.set;
  // A whole output is not kept in mind where the model sees something else.
  if (status)
    row.outcomes[change.id] = content ? { status, output: null, content, is_error } : { status, output, is_error };
}

/** The pending changes at one moment. */
type Mark = Readonly<Pending>;

/** What is pending now, as a point to come back to. */
export function mark({ pending }: RunLog): Mark {
  return cutTo(pending, pending);
}

/** Takes back what was appended after a mark: what depended on it is appended anew. */
export function rewind(log: RunLog, point: Mark): void {
  const dropped = log.pending.messages.length - point.messages.length;
  log.messages = log.messages.slice(0, log.messages.length - dropped);
  const kept = cutTo(log.pending, point);
  log.pending = { ...kept, events: [] };
  log.state = log.base;
  appendEvent(log, ...kept.events);
}

/** Lists of what is pending as long as they are at a mark, with what else it has. */
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

/** Puts what is pending on top of what others have appended meanwhile. */
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
 * The messages that the next commit writes: those that its events count. A message goes with the event that tells the new
 * length, or whoever takes the run over finds more messages than its log has.
 */
export function countedMessages({ pending, state }: RunLog): MessageRow[] {
  return pending.messages.filter(({ ordinal }) => ordinal < state.length);
}

/** What was pending is committed; `at` is the time of its last event, where it has one. What is not counted yet stays pending. */
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
