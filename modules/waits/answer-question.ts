/** Treats a message as the answer to a run's only open question. */
import { impossible } from '../../core/errors.ts';
import type { TurnInput } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import { lastEventSeq } from '../../db/events.ts';
import { listAnswerable } from '../../db/waits.ts';
import { appendIn, type Announcement, type AppendedChange } from '../run-log/append-to-run.ts';
import { answeredCall } from './answered-call.ts';
import { keepSignal } from './keep-signal.ts';
import { signalEvent } from './post-signal.ts';

interface AnsweredTurn {
  turnId: string;
  /** Position at which the question was asked. */
  after: number;
  written: Announcement;
}

/** A message that may be an answer. */
interface Said {
  input: TurnInput;
  attachedAt?: string | undefined;
  /** The sender's key. */
  requestedBy?: string | undefined;
}

/** Answers the run's only open question; undefined if it has none or several. Throws 422 for more than a message. */
export async function answerQuestionIn(
  tx: Tx,
  { tenantId, runId, ...said }: Said & { tenantId: string; runId: string },
): Promise<AnsweredTurn | undefined> {
  let after = 0;
  const appended = await appendIn(tx, { tenantId, runId }, async (run) => {
    const answer = await answerOf(tx, run, said);
    after = answer?.after ?? 0;
    return answer?.change ?? null;
  });
  if (!appended?.run.open_turn_id) return undefined;
  return { turnId: appended.run.open_turn_id, after, written: { ...appended, runId } };
}

/** The answer to the only open question of a locked run, and the position at which it was asked; undefined if it has none or several. */
export async function answerOf(
  tx: Tx,
  run: RunRow,
  { input, requestedBy, attachedAt = 'body.input.attachments' }: Said,
): Promise<{ change: AppendedChange; after: number } | undefined> {
  if (!run.open_turn_id) return undefined;
  const [question, another] = (await listAnswerable(tx, run.id)).filter(({ type }) => type === 'user');
  if (!question || another) return undefined;
  refuseMore(input, attachedAt);
  const said = { type: 'user' as const, payload: { message: input.message }, requestedBy, replaced: input.replaced };
  const signal = { id: newId(), ...said, callId: question.id };
  await keepSignal(tx, run, signal);
  const after = await lastEventSeq(tx, run.id, 'input.requested');
  return { change: { events: [signalEvent(run, signal)], ...(await answeredCall(tx, run, signal)) }, after };
}

/** Throws 422 for what begins with a turn: an answer goes on with one. */
function refuseMore({ attachments, output_schema: schema, metadata }: TurnInput, attachedAt: string): void {
  const paths = [
    ...(attachments ? [attachedAt] : []),
    ...(schema ? ['body.output_schema'] : []),
    ...(metadata ? ['body.metadata'] : []),
  ];
  if (paths.length === 0) return;
  const message = 'cannot go with the answer to a question';
  throw impossible(
    `${paths.join(', ')} ${message}.`,
    paths.map((path) => ({ path, message })),
  );
}
