/** The text that a model had written when its turn was broken off: kept in the log, and shown with the turn. */
import { cleanText } from '../../../core/content.ts';
import { checkEvent, toLogged, type NewEvent } from '../../../core/events.ts';
import { LIMITS } from '../../../core/limits.ts';
import { lockRun } from '../../../db/runs.ts';
import { commitRunIn, NO_ROWS } from '../../../db/commit-run.ts';
import { findTurnRow } from '../../../db/turns.ts';
import type { Drive, PartialAnswer } from './drive-state.ts';

/** The text, cleaned and cut for the log; undefined if there is none. */
export function partialText(partial: PartialAnswer | null): string | undefined {
  return partial?.text ? cleanText(partial.text.slice(0, LIMITS.partialAnswerChars)) : undefined;
}

/**
 * Appends the partial answer to the log of a run whose turn was cancelled or failed from outside, after the end of that turn.
 * Writes nothing if the turn goes on with another driver. Never throws: the turn has ended either way.
 */
export async function keepPartialAnswer(drive: Drive): Promise<void> {
  const { context, tenantId, run } = drive;
  const { partial } = drive.uncommitted;
  const turnId = drive.log.state.turn?.id;
  const text = partialText(partial);
  if (!partial || !turnId || text === undefined) return;
  const failed: NewEvent = {
    type: 'model.failed',
    actor: 'system',
    turn_id: turnId,
    step: partial.step,
    payload: { model: partial.model, error: INTERRUPTED, partial: text },
  };
  try {
    const seq = await context.db.withTenant(tenantId, async (tx) => {
      const now = await lockRun(tx, run.id);
      const turn = await findTurnRow(tx, run.id, turnId);
      if (!now || now.erased_at || !turn || !ENDED.includes(turn.status)) return undefined;
      const events = [toLogged(checkEvent(failed))];
      const result = await commitRunIn(tx, {
        tenant_id: tenantId,
        run_id: run.id,
        expect: now.last_seq,
        events,
        ...NO_ROWS,
      });
      return result.ok ? result.seq : undefined;
    });
    if (seq !== undefined) context.bus.publish({ subject: run.id, kind: 'advanced', seq });
  } catch (error) {
    context.log.warn({ run: run.id, err: error }, 'partial answer not kept');
  }
}

const INTERRUPTED = { code: 'interrupted', message: 'The turn ended before the model had finished.' };
const ENDED: readonly string[] = ['cancelled', 'failed'];
