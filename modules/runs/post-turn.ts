/** Posts the next turn to a run that waits for one. */
import { conflict, notFound } from '../../core/errors.ts';
import { isTerminal, type NewEvent, type TurnInput } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { TURNS } from '../../jobs/turns.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { answerQuestionIn } from '../waits/answer-question.ts';
import type { CarriedTurn } from '../waits/post-tool-results.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';

export interface PostTurn {
  tenantId: string;
  agentId: string;
  runId: string;
  input: TurnInput;
  /** The key that asks. */
  requestedBy?: string | undefined;
  traceparent?: string | undefined;
  idempotency: IdempotentRequest;
}

/**
 * Appends the turn and sends a job to drive it; answers the turn's id. A repeated `Idempotency-Key` answers the same turn.
 * While one question of a turn is open, the message answers it, and it is that turn which goes on. Throws 404 for an unknown
 * run, 409 for a finished or a busy one.
 */
export async function postTurn(context: Context, request: PostTurn): Promise<CarriedTurn> {
  let written: Announcement | undefined;
  let begunAt: number | undefined;
  const { runId: run_id } = request;
  const answer = await idempotently<{ turn_id: string; run_id: string; after?: number }>(
    context,
    request.idempotency,
    async (tx) => {
      const carried = await answerQuestionIn(tx, request);
      const posted = carried ?? (await postTurnIn(tx, request));
      written = posted.written;
      begunAt = carried ? undefined : written.seq;
      return { status: 202, body: { turn_id: posted.turnId, run_id, ...(carried && { after: carried.after }) } };
    },
  );
  if (written) announceAppended(context, written);
  const { turn_id: turnId, after = 0 } = answer.body;
  return { turnId, after, begunAt, replayed: answer.replayed };
}

/** The same in a transaction of the caller's, who announces afterwards what was written. */
export async function postTurnIn(
  tx: Tx,
  request: Omit<PostTurn, 'idempotency'>,
): Promise<{ turnId: string; written: Announcement }> {
  const { tenantId, runId } = request;
  const turnId = newId();
  const payload = {
    tenantId,
    runId,
    turnId,
    ...(request.traceparent && { traceparent: request.traceparent }),
  };
  const outbox: OutboxRow[] = [{ id: newId(), queue: TURNS.name, at_position: true, payload }];
  const appended = await appendIn(tx, { tenantId, runId }, (run) => {
    if (run.agent_id !== request.agentId) throw notFound('The run');
    mustWait(run);
    const started: NewEvent = {
      type: 'turn.started',
      actor: 'user',
      turn_id: turnId,
      payload: { number: run.turn_count + 1, input: request.input, requested_by: request.requestedBy },
    };
    return { events: [started], outbox };
  });
  if (!appended) throw new Error(`a turn of run ${runId} was not posted`);
  return { turnId, written: { ...appended, runId, outbox } };
}

function mustWait(run: RunRow): void {
  if (isTerminal(run.status)) {
    throw conflict(`The run is ${run.status}. Start another run with thread_id ${run.thread_id} to go on.`, {
      status_of_run: run.status,
      thread_id: run.thread_id,
    });
  }
  if (run.open_turn_id) {
    throw conflict(`The run is still working on turn ${run.open_turn_id}.`, { turn_id: run.open_turn_id });
  }
}
