import type { LoggedEvent } from '../../modules/runs/read-runs.ts';
import { callsOf, type TurnView } from './turn-view.ts';

/**
 * Pauses the view when the run waits and no call is under way, so that all questions have been asked. Events that need
 * nobody, such as a timer's end, do not move `pausedAt`. A turn that asks nothing any more does not wait: its calls may have been
 * settled by the cancellation of its run.
 */
export function notePause(view: TurnView, event: LoggedEvent): void {
  const isAnswer = ANSWERS.has(event.type);
  view.isAnswered ||= isAnswer;
  if (isAnswer || event.type === 'run.status_changed' || view.asks.size === 0) view.isPaused = false;
  const mayPause = PAUSES.has(event.type) && view.runStatus.startsWith('awaiting_');
  if (!mayPause || view.isPaused || view.asks.size === 0 || isWorking(view)) return;
  view.isPaused = true;
  if (view.isAnswered) view.pausedAt = event.seq;
  view.isAnswered = false;
}

const ANSWERS = new Set([
  'signal.received',
  'approval.granted',
  'approval.denied',
  'approval.expired',
  'approval.settled',
]);

const PAUSES = new Set([
  'run.status_changed',
  'client_tools.requested',
  'tool.succeeded',
  'tool.failed',
  'tool.denied',
  'tool.unknown',
  'tool.resolved',
]);

function isWorking(view: TurnView): boolean {
  const asked = new Set([...view.asks.values()].flatMap(({ calls }) => calls));
  return callsOf(view).some((call) => call.state === 'requested' && !call.isWaiting && !asked.has(call.id));
}
