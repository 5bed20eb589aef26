/** Turns an objective into a run: once, even if it is sent repeatedly. */
import { impossible } from '../../core/errors.ts';
import { canonicalJson } from '../../core/canonical-json.ts';
import { digestOf } from '../../core/ids.ts';
import type { RequestedConfig } from '../../core/run-config.ts';
import type { Tx } from '../../db/database.ts';
import { claimObjective, linkObjective } from '../../db/objectives.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, type Announcement } from '../run-log/append-to-run.ts';
import { writeOnThread, type OnThread } from './creation/named-thread.ts';
import { writeRun, type CreatedRun } from './create-run.ts';
import { idempotently, type IdempotentAnswer, type IdempotentRequest } from '../tenants/idempotency.ts';

export interface Objective extends Omit<OnThread, 'workspaceId'> {
  requestId: string;
  prompt: string;
  context?: unknown;
  constraints?: unknown;
}

interface OnceRequest<T extends Objective> {
  tenantId: string;
  workspaceId: string;
  objective: T;
  config: RequestedConfig;
  idempotency: IdempotentRequest;
}

interface ObjectiveRequest extends OnceRequest<Objective & { agentId: string }> {
  mayRaiseAutonomy: boolean;
  /** The requesting key. */
  requestedBy: string;
  traceparent?: string | undefined;
}

export interface StartedObjective {
  request_id: string;
  run_id: string;
}

/** What has been begun for an objective: a run, on its thread. */
interface Begun {
  body: CreatedRun;
  written: Announcement;
}

/**
 * Starts the run, or returns the one started by the same request. Throws 422 for a different request with the same id, and as
 * `createRun` does.
 */
export async function startObjective(
  context: Context,
  request: ObjectiveRequest,
): Promise<IdempotentAnswer<StartedObjective>> {
  const { agentId } = request.objective;
  return startOnce(context, request, (tx, { message, threadId }) =>
    writeRun(context, tx, { ...request, agentId, threadId, input: { message } }),
  );
}

/** The same for anything that `begin` starts, in the transaction that stores the request. */
export async function startOnce<T extends Objective>(
  context: Context,
  request: OnceRequest<T>,
  begin: (tx: Tx, asked: { message: string; threadId: string | undefined }) => Promise<Begun>,
): Promise<IdempotentAnswer<StartedObjective>> {
  const { tenantId, workspaceId, objective, config } = request;
  const { requestId } = objective;
  let written: Announcement | undefined;
  let isRepeated = false;
  const answer = await idempotently<StartedObjective>(context, request.idempotency, async (tx) => {
    const digest = digestOf(JSON.parse(JSON.stringify({ workspaceId, objective, config })));
    const earlier = await claimObjective(tx, { tenantId, requestId, digest });
    if (earlier) {
      if (earlier.body_digest !== digest) throw otherRequest();
      isRepeated = true;
      // Its run may be erased, and nothing would take a text from what is stored now.
      const { run_id } = earlier;
      return { status: 202, body: { request_id: requestId, run_id }, store: { id: run_id, run_id } };
    }
    const { threadId, threadName } = objective;
    const message = toMessage(objective);
    const begun = await writeOnThread(tx, { workspaceId, threadId, threadName }, (placed) =>
      begin(tx, { message, threadId: placed.threadId }),
    );
    const { run_id: id } = begun.body;
    await linkObjective(tx, requestId, id);
    written = begun.written;
    const body = { request_id: requestId, run_id: id };
    // By the `id`, erasure finds what is stored, and takes the `request_id` from it.
    return { status: 202, body, store: { ...body, id } };
  });
  if (written) announceAppended(context, written);
  const { run_id } = answer.body;
  return { ...answer, body: { request_id: requestId, run_id }, replayed: answer.replayed || isRepeated };
}

function otherRequest() {
  const message = 'was used for another objective';
  return impossible(`This request_id ${message}; a new one needs an id of its own.`, [
    { path: 'body.request_id', message },
  ]);
}

/** The message for the agent: the prompt as it is, followed by context and constraints as data. */
function toMessage({ prompt, context, constraints }: Objective): string {
  const parts = Object.entries({ Context: context, Constraints: constraints }).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}:\n${typeof value === 'string' ? value : canonicalJson(value)}`],
  );
  return [prompt, ...parts].join('\n\n');
}
