/** A conversation that another agent is to have: nothing begins on its thread before that agent, or whoever it comes back to, has it. */
import { DroverError } from '../../core/errors.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findConversationHandoff } from '../../db/handoffs.ts';

/** 409 to clients of whoever does not take the handoff on first (`afterHandoff`). */
export class HandingOver extends DroverError {
  readonly handoffId: string;

  constructor(handoffId: string) {
    const message = 'The conversation is being handed over to another agent; say it again in a moment.';
    super('conflict', 409, message, { extra: { handoff_id: handoffId } });
    this.handoffId = handoffId;
  }
}

/** Stops what begins the next turn of the thread whose newest run this is, which is locked or has ended, where another agent is to have its conversation. */
export async function mustHaveAgent(tx: Tx, { id, open_turn_id }: Pick<RunRow, 'id' | 'open_turn_id'>): Promise<void> {
  const handoffId = open_turn_id === null ? await findConversationHandoff(tx, id) : undefined;
  if (handoffId !== undefined) throw new HandingOver(handoffId);
}
