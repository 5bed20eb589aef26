/**
 * A conversation being handed over: nothing begins on its thread before the target agent (or, after a rejection, the former
 * one) has it.
 */
import { DroverError } from '../../core/errors.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { findConversationHandoff } from '../../db/handoffs.ts';

/** The error (409) for clients, unless the handoff is carried out first (`afterHandoff`). */
export class HandingOver extends DroverError {
  readonly handoffId: string;

  constructor(handoffId: string) {
    const message = 'The conversation is being handed over to another agent; say it again in a moment.';
    super('conflict', 409, message, { extra: { handoff_id: handoffId } });
    this.handoffId = handoffId;
  }
}

/**
 * Throws HandingOver if the conversation is to go to another agent, so that no turn begins before that. The run is the
 * thread's newest, and locked or ended.
 */
export async function mustHaveAgent(tx: Tx, { id, open_turn_id }: Pick<RunRow, 'id' | 'open_turn_id'>): Promise<void> {
  const handoffId = open_turn_id === null ? await findConversationHandoff(tx, id) : undefined;
  if (handoffId !== undefined) throw new HandingOver(handoffId);
}
