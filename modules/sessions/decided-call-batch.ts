/** The outcome of a call batch decided on earlier. */
import { textOf } from '../../core/content.ts';
import { conflict } from '../../core/errors.ts';
import { LIMITS } from '../../core/limits.ts';
import { listBatchOutcomes, listCallBatches, type BatchOutcome } from '../../db/call-batches.ts';
import type { Tx } from '../../db/database.ts';
import type { SessionCallBatch } from '../../db/sessions.ts';
import { findTurn, findTurnRow, type TurnRow } from '../../db/turns.ts';

/** Error codes of calls closed by the end of their turn. */
const CLOSED_BY_END = new Set(['interrupted', 'cancelled', 'failed', 'abandoned']);
const OPEN = new Set(['awaiting_approval', 'pending', 'running']);
const ENDS = {
  interrupted: 'The plan was interrupted',
  cancelled: 'The plan was cancelled',
  failed: 'The plan was cut short, since its turn failed',
};

/** The answer of the batch's turn; until there is one, the results of its calls. Throws 409 if the turn ended before all were made. */
export async function resultOf(tx: Tx, batch: SessionCallBatch): Promise<string> {
  const turn = await findTurn(tx, batch.run_id, batch.turn_id);
  const callIds = batch.steps.map(({ tool_call_id: id }) => id);
  const outcomes = await listBatchOutcomes(tx, { callIds, previewChars: LIMITS.previewChars });
  const end = turn && endOf(turn);
  if (end !== undefined && outcomes.some(isCutShort)) {
    throw conflict(`${ENDS[end]} before all of its calls had a result.`, { status_of_plan: end });
  }
  if (turn?.output) return textOf(turn.output);
  return outcomes.map(({ name, preview }) => `${name}: ${preview}`).join('\n');
}

/**
 * Whether the call batch's rejection ended its turn. A batch that was refined, or whose approval was denied or has expired,
 * leaves the turn open.
 */
export async function wasRejected(tx: Tx, { plan_id, run_id, turn_id }: SessionCallBatch): Promise<boolean> {
  const turn = await findTurnRow(tx, run_id, turn_id);
  const batches = await listCallBatches(tx, run_id, turn_id);
  return turn?.stop_reason === 'rejected' && batches.at(-1)?.id === plan_id;
}

/** How a turn ended without an answer; undefined if it did not. */
function endOf({ status, stop_reason }: TurnRow): keyof typeof ENDS | undefined {
  if (status === 'failed') return status;
  if (status !== 'cancelled') return undefined;
  return stop_reason === 'cancelled' ? stop_reason : 'interrupted';
}

function isCutShort({ status, error_code }: BatchOutcome): boolean {
  return OPEN.has(status) || (error_code !== null && CLOSED_BY_END.has(error_code));
}
