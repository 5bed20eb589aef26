/** Begins a turn, takes waiting messages, and ends the turn: as events of the next commit. */
import { isNextTaken, NO_BUDGET, noBudgetFor, type Decision } from '../../../core/decide.ts';
import { OUT_OF_BUDGET } from '../../../core/events.ts';
import { completeCallBatch } from '../../../core/decision-events/call-batches.ts';
import {
  beginRun,
  beginTurn,
  completeTurn,
  failTurn,
  takeQueued,
  takeSteering,
} from '../../../core/decision-events/turns.ts';
import { nextToRead, type QueuedMessage } from '../../../core/message-queue.ts';
import { newId } from '../../../lib/new-id.ts';
import { denyCalls } from '../../approvals/ask-about.ts';
import { appendEvent, appendMessage, dropUncounted, lengthOf, mark, rewind } from '../../run-log/run-log.ts';
import { commit } from './commit.ts';
import { appendQuestion, findLastSaid, userMessage } from './messages.ts';
import { saveCheckpoint } from './save-checkpoint.ts';
import type { Drive } from './drive-state.ts';

/** Begins the waiting turn. A run with a graph saves a checkpoint before its first turn. */
export async function startTurn(drive: Drive): Promise<void> {
  const { log, limits } = drive;
  if (limits.graph && log.state.status === 'created') {
    appendEvent(log, ...beginRun(log.state));
    // It is the first; without one the turn may begin at once.
    if (saveCheckpoint(drive, 'tool_result') !== undefined) return void (await commit(drive));
  }
  appendEvent(log, ...beginTurn(log.state));
  appendQuestion(log);
}

/** Lets the waiting message begin the next turn, and commits: the newest one, if another has come meanwhile. */
export async function takeNext(drive: Drive): Promise<void> {
  const { log } = drive;
  const point = mark(log);
  const take = () => {
    if (isNextTaken(log.state)) appendEvent(log, ...takeQueued(log.state, newId()));
  };
  drive.uncommitted.reconsider = () => {
    rewind(log, point);
    take();
  };
  take();
  await commit(drive);
}

/**
 * Appends what the model reads next to the conversation: the turn's own message, if its creator could not count it; messages
 * read in the run from which this one was forked; and one for the open turn. That is also added to an announced call, since a
 * call that waited for a budget, a provider or another driver may have been announced long ago.
 */
export function takeMessages(drive: Drive): void {
  const { log, step } = drive;
  appendQuestion(log);
  for (let next = nextToRead(log.state, lengthOf(log)); next; next = nextToRead(log.state, lengthOf(log))) {
    read(drive, next);
  }
  const { queued } = log.state;
  if (queued?.mode !== 'steer') return;
  const point = mark(log);
  const { reservation } = step;
  drive.uncommitted.reconsider = () => {
    // A newer one replaced it before it was taken.
    if (!log.state.queued) return;
    rewind(log, point);
    drive.step = Object.assign(step, { reservation });
  };
  read(drive, queued);
}

function read({ log }: Drive, message: QueuedMessage): void {
  appendMessage(log, userMessage(message.input));
  appendEvent(log, ...takeSteering(log.state, message, lengthOf(log)));
}

/**
 * Completes the turn with the decision's answer. If its budget is used up in the middle, the model's last words are the
 * answer; without any, the turn fails.
 */
export function completeOpenTurn(drive: Drive, decided: Extract<Decision, { kind: 'complete_turn' }>): void {
  const { log } = drive;
  const isStopped = decided.stopReason === OUT_OF_BUDGET && !log.state.turn?.answer;
  const ordinal = isStopped ? findLastSaid(drive) : decided.ordinal;
  if (ordinal === undefined) return failOpenTurn(drive, NO_BUDGET);
  const end = { ...decided, ordinal };
  appendEvent(log, ...completeCallBatch(log.state));
  const checkpointId = saveCheckpoint(drive, 'turn_complete');
  appendEvent(log, ...completeTurn(log.state, end, checkpointId));
  drive.turnEnd = 'completed';
}

/** Fails the turn; `ordinal`: the message to show with it. Calls waiting for approval are not made. */
export function failOpenTurn(drive: Drive, error: { code: string; message: string }, ordinal?: number): void {
  const { log } = drive;
  // A driver that goes on for one that died does not know what the call lacked.
  const told = error.code === OUT_OF_BUDGET ? noBudgetFor(drive.lack) : error;
  const events = failTurn(log.state, told, ordinal);
  appendEvent(log, ...events);
  drive.turnEnd = 'failed';
  denyCalls(log, events);
  dropUncounted(log);
}
