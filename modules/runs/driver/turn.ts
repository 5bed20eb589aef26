/** How a turn begins in a drive, what it takes of messages that wait, and how it ends: as events that the next commit writes. */
import { isNextTaken, NO_BUDGET, type Decision } from '../../../core/decide.ts';
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

/** Begins the turn that waits; the first one of a run with a graph after a checkpoint. */
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

/** Commits that the message which waits begins the next turn: the newest one, where another has come meanwhile. */
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
 * Puts what the model reads next into the conversation: the turn's own message where whoever began it could not have it counted,
 * what it had read in the run that this one was forked from, and one that came for the open turn. That goes into a call that is announced, too, since what has waited for a budget, a provider
 * or another driver may have been announced long ago.
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
    // A newer one has taken its place before it was taken.
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
 * Completes the turn with the answer that the decision names. Where its budget is used up in the middle, that is what the model has said
 * last; where it has said nothing, the turn has failed.
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

/** Fails the turn; `ordinal` is the message to show with it. Calls that wait for approval are not made. */
export function failOpenTurn(drive: Drive, error: { code: string; message: string }, ordinal?: number): void {
  const { log } = drive;
  const events = failTurn(log.state, error, ordinal);
  appendEvent(log, ...events);
  drive.turnEnd = 'failed';
  denyCalls(log, events);
  dropUncounted(log);
}
