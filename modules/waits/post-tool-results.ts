/** Passes results of the client's tools to the turn that waits for them. */
import { conflict, notFound } from '../../core/errors.ts';
import { lastEventSeq } from '../../db/events.ts';
import type { OutboxRow } from '../../db/commit-run.ts';
import type { Context } from '../governance/context.ts';
import { announceAppended, appendIn, type Announcement } from '../run-log/append-to-run.ts';
import { takeResults, type ToolResult } from './client-calls.ts';
import { idempotently, type IdempotentRequest } from '../tenants/idempotency.ts';

interface PostToolResults {
  tenantId: string;
  agentId: string;
  runId: string;
  results: readonly ToolResult[];
  /** The key that sends them. */
  requestedBy?: string | undefined;
  /** Number of characters of the request that had to be replaced. */
  replaced?: number | undefined;
  idempotency: IdempotentRequest;
}

export interface CarriedTurn {
  turnId: string;
  /** Where the turn's stream ended: the position at which the client was asked. */
  after: number;
  /** The log's position after the start of a new turn. */
  begunAt?: number | undefined;
  replayed: boolean;
}

/** Settles the calls; the same turn continues when none is left. Throws 404 for an unknown run, 409 for results that no call waits for. */
export async function postToolResults(context: Context, request: PostToolResults): Promise<CarriedTurn> {
  const { tenantId, runId } = request;
  let written: Announcement | undefined;
  const answer = await idempotently(context, request.idempotency, async (tx) => {
    let outbox: OutboxRow[] = [];
    let after = 0;
    const appended = await appendIn(tx, { tenantId, runId }, async (run) => {
      if (run.agent_id !== request.agentId) throw notFound('The run');
      const change = await takeResults(tx, run, {
        results: request.results,
        requestedBy: request.requestedBy,
        replaced: request.replaced,
        limitBytes: context.config.runOutputBytes,
      });
      after = await lastEventSeq(tx, runId, 'client_tools.requested');
      outbox = change?.outbox ?? [];
      return change;
    });
    if (!appended?.run.open_turn_id) throw conflict('No call of this run waits for the client.');
    written = { ...appended, runId, outbox };
    return { status: 202, body: { turn_id: appended.run.open_turn_id, after } };
  });
  if (written) announceAppended(context, written);
  return { turnId: answer.body.turn_id, after: answer.body.after, replayed: answer.replayed };
}
