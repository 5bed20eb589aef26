/** Asks people about calls, on behalf of a run's driver. */
import { askAboutCalls } from '../../core/decision-events/approvals.ts';
import type { NewEvent } from '../../core/events.ts';
import { approvalSeconds, type AgentDefinition } from '../../core/definition.ts';
import { digestOf } from '../../core/ids.ts';
import { newId } from '../../lib/new-id.ts';
import type { CallState } from '../../core/state.ts';
import { appendEvent, changeCall, type RunLog } from '../run-log/run-log.ts';
import { refusedCall } from './approval-outcome.ts';

/** A run that asks people. */
export interface AskingRun {
  readonly definition: AgentDefinition;
  readonly log: RunLog;
}

/** Asks people what became of calls of unknown outcome. */
export function askAbout({ log, definition }: AskingRun, calls: readonly CallState[]): void {
  const seconds = approvalSeconds(definition);
  const questions = calls.map((call) => ({
    approvalId: newId(),
    call,
    digest: digestOf({ tool_call: call.id }),
    seconds,
  }));
  appendEvent(log, ...askAboutCalls(log.state, questions));
}

/** Denies in the ledger the waiting calls that these events have denied. */
export function denyCalls(log: RunLog, events: readonly NewEvent[]): void {
  for (const event of events) {
    if (event.type !== 'tool.denied') continue;
    const { tool_call_id: id, error } = event.payload;
    changeCall(log, { ...refusedCall(id, error), from: ['awaiting_approval'] });
  }
}
