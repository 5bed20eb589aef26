/** What a run asks people about calls, as far as its driver asks. */
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

/** Asks what became of calls whose outcome nobody knows. */
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

/** Denies the calls that these events have denied in the ledger as well: what waits for approval is never made. */
export function denyCalls(log: RunLog, events: readonly NewEvent[]): void {
  for (const event of events) {
    if (event.type !== 'tool.denied') continue;
    const { tool_call_id: id, error } = event.payload;
    changeCall(log, { ...refusedCall(id, error), from: ['awaiting_approval'] });
  }
}
