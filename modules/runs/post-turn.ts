/** Posts the next turn to a run that waits for one. */
import { conflict, notFound } from '../../core/errors.ts';
import { isTerminal, type NewEvent, type TurnInput } from '../../core/events.ts';
import { newId } from '../../lib/new-id.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Tx } from '../../db/database.ts';
import { TURNS } from '../../jobs/turns.ts';
import type { Context } from '../governance/context.ts';
import {
  announceAppended,
  appendIn,
  appendLast,
  type Act,
  type Announcement,
  type Appended,
  type AppendedChange,
} from '../run-log/append-to-run.ts';
import { answerOf } from '../waits/answer-question.ts';
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
      const carried = await carryOn(tx, request);
      written = carried.written;
      begunAt = carried.after === undefined ? written.seq : undefined;
      const after = carried.after !== undefined && { after: carried.after };
      return { status: 202, body: { turn_id: carried.turnId, run_id, ...after } };
    },
  );
  if (written) announceAppended(context, written);
  const { turn_id: turnId, after = 0 } = answer.body;
  return { turnId, after, begunAt, replayed: answer.replayed };
}

/** A turn that is on its way. */
interface Posted {
  turnId: string;
  written: Announcement;
}

/** Where the message answers a question, with `after`, the position at which that was asked. The run is locked once for either. */
async function carryOn(tx: Tx, request: PostTurn): Promise<Posted & { after?: number }> {
  const next = beginning(request);
  let answered: { turnId: string; after: number } | undefined;
  const act: Act = async (run) => {
    mustBeOf(run, request.agentId);
    const answer = await answerOf(tx, run, request);
    if (!answer || !run.open_turn_id) return next.begin(run);
    answered = { turnId: run.open_turn_id, after: answer.after };
    return answer.change;
  };
  // Whatever remembers the answer under its key comes after the change, in the same transaction.
  const append = request.idempotency.key === undefined ? appendLast : appendIn;
  return { ...toPosted(await append(tx, request, act), { ...request, turnId: next.turnId }), ...answered };
}

/** Begins the next turn in a transaction of the caller's, who announces afterwards what was written. */
export async function postTurnIn(tx: Tx, request: Omit<PostTurn, 'idempotency'>): Promise<Posted> {
  const { turnId, begin } = beginning(request);
  const appended = await appendIn(tx, request, (run) => {
    mustBeOf(run, request.agentId);
    return begin(run);
  });
  return toPosted(appended, { ...request, turnId });
}

function toPosted(appended: Appended | null, { runId, turnId }: { runId: string; turnId: string }): Posted {
  if (!appended) throw new Error(`a turn of run ${runId} was not posted`);
  return { turnId, written: { ...appended, runId } };
}

/** What begins the next turn of a run that waits for one. */
function beginning({ tenantId, runId, input, requestedBy, traceparent }: Omit<PostTurn, 'idempotency'>) {
  const turnId = newId();
  const payload = { tenantId, runId, turnId, ...(traceparent && { traceparent }) };
  const outbox: OutboxRow[] = [{ id: newId(), queue: TURNS.name, at_position: true, payload }];
  const begin = (run: RunRow): AppendedChange => {
    mustWait(run);
    const started: NewEvent = {
      type: 'turn.started',
      actor: 'user',
      turn_id: turnId,
      payload: { number: run.turn_count + 1, input, requested_by: requestedBy },
    };
    return { events: [started], outbox };
  };
  return { turnId, begin };
}

function mustBeOf(run: RunRow, agentId: string): void {
  if (run.agent_id !== agentId) throw notFound('The run');
}

function mustWait(run: RunRow): void {
  if (isTerminal(run.status)) {
    throw conflict(`The run is ${run.status}. Start another run with thread_id ${run.thread_id} to go on.`, {
      status_of_run: run.status,
      thread_id: run.thread_id,
    });
  }
  if (run.open_turn_id && run.status === 'awaiting_human') {
    const message = `Turn ${run.open_turn_id} of the run waits for somebody: \`waits\` of the run says for what; answer that, or cancel.`;
    throw conflict(message, { turn_id: run.open_turn_id });
  }
  if (run.open_turn_id) {
    throw conflict(`The run is still working on turn ${run.open_turn_id}.`, { turn_id: run.open_turn_id });
  }
}
