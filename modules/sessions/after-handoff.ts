/** Messages during a handoff of the conversation go to the target agent. */
import { findTurnOfMessage, type ShownTurn } from '../../db/shown-turns.ts';
import type { Context } from '../governance/context.ts';
import { HandingOver } from '../runs/handing-over.ts';
import { carryHandoff } from '../workflows/carry-handoffs.ts';

/** If a target rejects the handoff, the next attempt returns the conversation. */
const MOST_ATTEMPTS = 3;

/**
 * Runs `act`, which takes a message or begins a run in a transaction that calls `mustHaveAgent`. If the conversation is being
 * handed over, first carries that out, then runs it again. Throws 409 if the conversation keeps being handed on.
 */
export async function afterHandoff<T>(context: Context, tenantId: string, act: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof HandingOver) || attempt === MOST_ATTEMPTS) throw error;
      await carryHandoff(context, { tenantId, id: error.handoffId });
    }
  }
}

/**
 * The turn at whose end a carried message waits, if the conversation of this turn's run was handed over along with that
 * message; otherwise undefined.
 */
export async function findTurnAfterHandoff(
  context: Context,
  { tenantId, turn, messageId }: { tenantId: string; turn: ShownTurn; messageId: string },
): Promise<ShownTurn | undefined> {
  const { threadId, runId } = turn;
  const found = await context.db.withTenant(tenantId, (tx) => findTurnOfMessage(tx, { threadId, messageId }));
  return found?.runId === runId ? undefined : found;
}
