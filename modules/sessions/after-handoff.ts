/** Whoever speaks while a conversation is being handed over speaks to the agent that it goes to. */
import { findTurnOfMessage, type ShownTurn } from '../../db/shown-turns.ts';
import type { Context } from '../governance/context.ts';
import { HandingOver } from '../runs/handing-over.ts';
import { carryHandoff } from '../workflows/carry-handoffs.ts';

/** A target that rejects it has it taken back in the next one. */
const MOST_ATTEMPTS = 3;

/**
 * Does what a message does, or begins a run, in a transaction that asks `mustHaveAgent`; where the conversation is being handed over, after it is. Throws
 * 409 where it keeps being handed on meanwhile.
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

/** The turn in whose end a message waits that went along when the conversation of this turn's run was handed over; undefined where it did not. */
export async function findTurnAfterHandoff(
  context: Context,
  { tenantId, turn, messageId }: { tenantId: string; turn: ShownTurn; messageId: string },
): Promise<ShownTurn | undefined> {
  const { threadId, runId } = turn;
  const found = await context.db.withTenant(tenantId, (tx) => findTurnOfMessage(tx, { threadId, messageId }));
  return found?.runId === runId ? undefined : found;
}
