/** Posts the next turn to a waiting run. */
import { notFound } from '../../core/errors.ts';
import type { RunRow } from '../../db/claim-run.ts';
import type { Tx } from '../../db/database.ts';
import type { Context } from '../governance/context.ts';
import {
  announceAppended,
  appendIn,
  appendLast,
  type Act,
  type Announcement,
  type Appended,
} from '../run-log/append-to-run.ts';
import { answerOf } from '../waits/answer-question.ts';
import type { CarriedTurn } from '../waits/post-tool-results.ts';
import { mustHaveConversation, nextTurn, type NextTurn } from '../waits/next-turn.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';

export interface PostTurn extends NextTurn {
  agentId: string;
  idempotency: IdempotentRequest;
}

/**
 * Appends the turn and sends a job to drive it; a repeated `Idempotency-Key` returns the same turn. If exactly one question of
 * a turn is open, the message answers it, and that turn continues. Throws 404 for an unknown run; 409 for a finished or busy
 * one, or one whose conversation goes to another agent.
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

/** A turn under way. */
interface Posted {
  turnId: string;
  written: Announcement;
}

/**
 * Answers the open question, if there is one (`after`: the position at which it was asked); otherwise begins a turn. Locks the
 * run once for both.
 */
async function carryOn(tx: Tx, request: PostTurn): Promise<Posted & { after?: number }> {
  const next = nextTurn(request);
  let answered: { turnId: string; after: number } | undefined;
  const act: Act = async (run) => {
    mustBeOf(run, request.agentId);
    const answer = await answerOf(tx, run, request);
    if (!answer || !run.open_turn_id) {
      await mustHaveConversation(tx, run);
      return next.begin(run);
    }
    answered = { turnId: run.open_turn_id, after: answer.after };
    return answer.change;
  };
  // With a key, its answer is stored after the change, in the same transaction.
  const append = request.idempotency.key === undefined ? appendLast : appendIn;
  return { ...toPosted(await append(tx, request, act), { ...request, turnId: next.turnId }), ...answered };
}

/** Begins the next turn in the caller's transaction; the caller announces the result. */
export async function postTurnIn(tx: Tx, request: Omit<PostTurn, 'idempotency'>): Promise<Posted> {
  const { turnId, begin } = nextTurn(request);
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

function mustBeOf(run: RunRow, agentId: string): void {
  if (run.agent_id !== agentId) throw notFound('The run');
}
