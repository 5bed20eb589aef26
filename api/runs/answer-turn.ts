/** Answers requests that let a turn go on: with the turn once it is over, or with its address. */
import { z } from 'zod';
import type { Caller } from '../../core/caller.ts';
import { linkSignals } from '../../lib/link-signals.ts';
import type { Context } from '../../modules/governance/context.ts';
import { mayRead, readAnswerCalls, readRun } from '../../modules/runs/read-runs.ts';
import { listenForTurn } from '../../modules/runs/wait-for-turn.ts';
import type { CarriedTurn } from '../../modules/waits/post-tool-results.ts';
import type { AppParts } from '../kit/route.ts';
import type { ApiContext } from '../kit/state.ts';
import { watchCaller } from '../kit/watch-caller.ts';
import { preferredWaitMs, prefersAsync } from '../kit/prefer.ts';
import { presentAnswer, turnAnswer } from './schemas.ts';
import { presentWaiting, waitingFor } from './waiting.ts';

const accepted = z.object({
  turn_id: z.uuid(),
  run_id: z.uuid(),
  status: z.literal('running'),
  waiting_for: waitingFor.optional().describe('What kept the turn, where it was waited for in vain.'),
});

/** Responses of `answerTurn`, by status. */
export const TURN_ANSWERS = { 200: turnAnswer, 202: accepted };

interface TurnRequest {
  caller: Caller;
  params: { run: string };
  context: Context;
  app: Pick<AppParts, 'authenticator' | 'closing'>;
  ctx: ApiContext;
}

type TurnOnItsWay = Omit<CarriedTurn, 'after'>;

/** Lets a turn go on and waits for it as `Prefer` says, 60 s by default: 200 with its answer, or 202 with its address. */
export async function answerTurn(request: TurnRequest, letGoOn: () => Promise<TurnOnItsWay>) {
  const { caller, params, context, app, ctx } = request;
  const ref = { tenantId: caller.tenantId, runId: params.run };
  const timeoutMs = preferredWaitMs(ctx.get('prefer'));
  if (timeoutMs === 0) return inBackground(request, await letGoOn());
  // First, so that no event of the turn is missed.
  const listener = listenForTurn(context, ref);
  try {
    const carried = await letGoOn();
    const { turnId, begunAt: since, replayed } = carried;
    const row = await listener.ended(turnId, { timeoutMs, since, signal: untilGone(ctx, [app.closing]) });
    if (!row || row.status === 'running') return inBackground(request, carried, await reasonOf(request));
    const calls = await context.db.withTenantOnce(ref.tenantId, (tx) => readAnswerCalls(tx, row));
    return { status: 200, body: presentAnswer(row, calls), replayed };
  } finally {
    listener.close();
  }
}

/** What the run waits for, such as its provider; undefined if it is at work, or the caller may not read it. */
async function reasonOf({ caller, params, context }: TurnRequest) {
  const isShown = await context.db.withTenantOnce(caller.tenantId, (tx) => mayRead(tx, caller, params.run));
  return isShown ? presentWaiting(await readRun(context, caller, { run: params.run })) : undefined;
}

function inBackground(
  { params, ctx }: TurnRequest,
  { turnId, replayed }: TurnOnItsWay,
  waiting?: z.input<typeof waitingFor>,
) {
  const location = `/v1/runs/${params.run}/turns/${turnId}`;
  const applied = prefersAsync(ctx.get('prefer')) ? { 'preference-applied': 'respond-async' } : {};
  const body = {
    turn_id: turnId,
    run_id: params.run,
    status: 'running' as const,
    ...(waiting && { waiting_for: waiting }),
  };
  return { status: 202, body, replayed, headers: { location, ...applied } };
}

/** For open streams: as `untilGone`, and fires when the key is revoked or expires, or its token ends. */
export function untilEnded({ ctx, app, caller, context }: Omit<TurnRequest, 'params'>): AbortSignal {
  const revoked = new AbortController();
  const { authenticator } = app;
  const { stop } = watchCaller({ context, authenticator }, caller, () => revoked.abort());
  return untilGone(ctx, [app.closing, revoked.signal], stop);
}

/** Fires when the client has left or the server stops: neither cancels the work. */
function untilGone(ctx: ApiContext, ends: readonly AbortSignal[], onClose?: () => void): AbortSignal {
  const gone = new AbortController();
  const { signal, release } = linkSignals(gone.signal, ...ends);
  ctx.res.once('close', () => {
    gone.abort();
    release();
    onClose?.();
  });
  return signal;
}
