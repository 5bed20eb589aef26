/** What a model had written when its turn was broken off: the text is kept in the log, and shown with the turn; its cost is counted. */
import { cleanText } from '../../../core/content.ts';
import { recordModelFailure } from '../../../core/decision-events/model-calls.ts';
import { checkEvent, type NewEvent } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import { INTERRUPTED } from '../../../core/model-call-state.ts';
import { lockRun } from '../../../db/runs.ts';
import { commitRunIn, type ReservationChange } from '../../../db/commit-run.ts';
import { findTurnRow } from '../../../db/turns.ts';
import { addSpent, tokensOf, type Spent } from '../../budgets/hold-to-budget.ts';
import { toRunChange } from '../../run-log/run-change.ts';
import type { Drive, PartialAnswer } from './drive-state.ts';

/** The text, cleaned and cut for the log; undefined if there is none. */
export function partialText(partial: PartialAnswer | null): string | undefined {
  return partial?.text ? cleanText(partial.text.slice(0, LIMITS.partialAnswerChars)) : undefined;
}

/**
 * Appends the partial answer and what was paid for it to the log of a run whose turn was cancelled or failed from outside,
 * after the end of that turn, and settles what was set aside for it. Writes nothing if the turn goes on with another driver.
 * Never throws: the turn has ended either way.
 */
export async function keepPartialAnswer(drive: Drive): Promise<void> {
  const { context, tenantId, run } = drive;
  const { partial } = drive.uncommitted;
  if (!partial) return;
  const events = lostEvents(drive, partial);
  const settlement = settlementOf(drive, partial, spentBy(events));
  if (events.length === 0 && !settlement) return;
  try {
    const seq = await context.db.withTenant(tenantId, async (tx) => {
      const now = await lockRun(tx, run.id);
      const turn = await findTurnRow(tx, run.id, partial.turnId);
      if (!now || now.erased_at || !turn || !ENDED.includes(turn.status)) return undefined;
      const change = toRunChange(now, events.map(checkEvent));
      const result = await commitRunIn(tx, { ...change, ...(settlement && { reservations: [settlement] }) });
      return result.ok ? result.seq : undefined;
    });
    if (seq !== undefined) context.bus.publish({ subject: run.id, kind: 'advanced', seq });
  } catch (error) {
    context.log.warn({ run: run.id, err: error }, 'partial answer not kept');
  }
}

/** The call's end, if anything of an answer had come, after earlier attempts and models that were paid for and not committed. */
function lostEvents({ log }: Drive, partial: PartialAnswer): NewEvent[] {
  const pending = log.pending.events;
  const before = pending.some(isPaid)
    ? pending.filter((event) => isPaid(event) || event.type === 'model.fell_back')
    : [];
  const { model, turnId, step, paid, isRecorded } = partial;
  const text = partialText(partial);
  if (isRecorded || (text === undefined && !paid?.usage)) return before;
  const failed = { model, error: ENDED_FIRST, ...paid, ...(text !== undefined && { partial: text }) };
  return [...before, recordModelFailure({ turn: { id: turnId } }, step, failed)];
}

/** What is set aside for a call of which nothing had come is released. Of a call that is not known to have failed it stays. */
function settlementOf(
  { fence, step: { reservation } }: Drive,
  { step, paid }: PartialAnswer,
  spent: Spent | undefined,
): ReservationChange | undefined {
  // What ended the turn has raised the fence.
  if (spent) return { step, settle: 'estimated', fence, ...spent };
  return paid && reservation?.call ? { step, settle: 'released', fence } : undefined;
}

function isPaid(event: NewEvent): boolean {
  return (event.type === 'model.retried' || event.type === 'model.failed') && event.payload.usage !== undefined;
}

function spentBy(events: readonly NewEvent[]): Spent | undefined {
  return events.reduce((sum: Spent | undefined, event) => {
    if (event.type !== 'model.retried' && event.type !== 'model.failed') return sum;
    const { usage, cost_usd = null } = event.payload;
    return usage ? addSpent(sum, { tokens: tokensOf(usage), cost_usd }) : sum;
  }, undefined);
}

const ENDED_FIRST = { code: INTERRUPTED, message: 'The turn ended before the model had finished.' };
const ENDED: readonly string[] = ['cancelled', 'failed'];
