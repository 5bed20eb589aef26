/** Whoever speaks while a conversation is being handed over speaks to the agent that it goes to. */
import { conflict } from '../../core/errors.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findConversationHandoff } from '../../db/handoffs.ts';
import { findTurnOfMessage, type ShownTurn } from '../../db/shown-turns.ts';
import type { Context } from '../governance/context.ts';
import { carryHandoff } from '../workflows/carry-handoffs.ts';

/** Nothing is said on the thread before its handoff was taken on. */
class HandingOver extends Error {
  readonly handoffId: string;

  constructor(handoffId: string) {
    super(`handoff ${handoffId} is to be taken on first`);
    this.handoffId = handoffId;
  }
}

/** A target that rejects it has it taken back in the next one. */
const MOST_ATTEMPTS = 3;

/**
 * Does what a message does, in a transaction that asks `mustHaveAgent`; where the conversation is being handed over, after it is. Throws
 * 409 where it keeps being handed on meanwhile.
 */
export async function afterHandoff<T>(context: Context, tenantId: string, act: () => Promise<T>): Promise<T> {
  for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof HandingOver)) throw error;
      await carryHandoff(context, { tenantId, id: error.handoffId });
    }
  }
  throw conflict('The conversation is being handed over to another agent; say it again in a moment.');
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

/** Stops what begins the next turn of a run that is locked, where another agent is to have its conversation. */
export async function mustHaveAgent(tx: Tx, { id, open_turn_id }: RunRow): Promise<void> {
  const handoffId = open_turn_id === null ? await findConversationHandoff(tx, id) : undefined;
  if (handoffId !== undefined) throw new HandingOver(handoffId);
}
