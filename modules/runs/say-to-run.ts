/** Takes a message to a run from clients that say one thing at a time. */
import type { Caller } from '../../core/caller.ts';
import type { Context } from '../governance/context.ts';
import { answerWaits } from '../waits/answer-waits.ts';
import { postTurn, type PostTurn } from './post-turn.ts';
import type { RunView } from './read-runs.ts';

interface Saying extends Omit<PostTurn, 'tenantId' | 'agentId' | 'runId' | 'requestedBy'> {
  caller: Caller;
  /** As the sender has read it. */
  run: RunView;
}

/**
 * Answers the first open question that the run shows; without any, begins its next turn. Returns the id of the turn that
 * continues. Throws 409 if the run waits for neither, or the question was answered meanwhile.
 */
export async function sayToRun(context: Context, { caller, run, ...request }: Saying): Promise<string> {
  const { id: runId, agent_id: agentId } = run;
  const [question, another] = (run.waits ?? []).filter(({ type }) => type === 'user');
  if (question && another) {
    const { message, replaced } = request.input;
    const answers = [{ kind: 'answer' as const, waitId: question.id, message, replaced }];
    const { idempotency } = request;
    return (await answerWaits(context, { caller, runId, answers, idempotency })).turnId;
  }
  const { tenantId, keyId: requestedBy } = caller;
  return (await postTurn(context, { ...request, tenantId, agentId, runId, requestedBy })).turnId;
}
