/** A message while one question is open is its answer. */
import { impossible } from '../../core/errors.ts';
import type { TurnInput } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { Tx } from '../../db/database.ts';
import { lastEventSeq } from '../../db/events.ts';
import { listAnswerable } from '../../db/waits.ts';
import { appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { answeredCall } from './answered-call.ts';
import { keepSignal } from './keep-signal.ts';
import { signalEvent } from './post-signal.ts';

interface AnsweredTurn {
  turnId: string;
  /** The position at which the question was asked. */
  after: number;
  written: Announcement;
}

/** Answers the run's one open question; undefined if it has none or several. Throws 422 for attachments. */
export async function answerQuestionIn(
  tx: Tx,
  {
    tenantId,
    runId,
    input,
    attachedAt = 'body.input.attachments',
  }: { tenantId: string; runId: string; input: TurnInput; attachedAt?: string | undefined },
): Promise<AnsweredTurn | undefined> {
  const appended = await appendIn(tx, { tenantId, runId }, async (run) => {
    if (!run.open_turn_id) return null;
    const [question, another] = (await listAnswerable(tx, runId)).filter(({ type }) => type === 'user');
    if (!question || another) return null;
    if (input.attachments) {
      const message = 'cannot go with the answer to a question';
      throw impossible(`${attachedAt} ${message}.`, [{ path: attachedAt, message }]);
    }
    const signal = { id: newId(), type: 'user' as const, payload: { message: input.message }, callId: question.id };
    await keepSignal(tx, run, signal);
    return { events: [signalEvent(run, signal)], ...(await answeredCall(tx, run, signal)) };
  });
  if (!appended?.run.open_turn_id) return undefined;
  const after = await lastEventSeq(tx, runId, 'input.requested');
  return { turnId: appended.run.open_turn_id, after, written: { ...appended, runId } };
}
