/** How a request that lets a turn go on is answered: with the turn once it has, or with where it will be. */
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
import { preferredWaitMs, prefers } from './prefer.ts';
import { presentAnswer, turnAnswer } from './schemas.ts';
import { presentWaiting, waitingFor } from './waiting.ts';

const accepted = z.object({
  turn_id: z.uuid(),
  run_id: z.uuid(),
  status: z.literal('running'),
  waiting_for: waitingFor.optional().describe('What kept the turn, where it was waited for in vain.'),
});

/** The answers that `answerTurn` gives, by status. */
export const TURN_ANSWERS = { 200: turnAnswer, 202: accepted };

interface TurnRequest {
  caller: Caller;
  params: { run: string };
  context: Context;
  app: Pick<AppParts, 'closing'>;
  ctx: ApiContext;
}

type TurnOnItsWay = Omit<CarriedTurn, 'after'>;

/** Lets a turn go on and waits for it as `Prefer` says, 60 s where it says nothing: 200 with its answer, or 202 with its address. */
export async function answerTurn(request: TurnRequest, letGoOn: () => Promise<TurnOnItsWay>) {
  const { caller, params, context, app, ctx } = request;
  const ref = { tenantId: caller.tenantId, runId: params.run };
  const timeoutMs = preferredWaitMs(ctx.get('prefer'));
  if (timeoutMs === 0) return inBackground(request, await letGoOn());
  // Before the turn goes on, so that nothing of it is missed.
  const listener = listenForTurn(context, ref);
  try {
    const carried = await letGoOn();
    const { turnId, begunAt: since, replayed } = carried;
    const row = await listener.ended(turnId, { timeoutMs, since, signal: untilGone(ctx, app.closing) });
    if (!row || row.status === 'running') return inBackground(request, carried, await reasonOf(request));
    const calls = await context.db.withTenantOnce(ref.tenantId, (tx) => readAnswerCalls(tx, row));
    return { status: 200, body: presentAnswer(row, calls), replayed };
  } finally {
    listener.close();
  }
}

/** What the run waits for, its provider perhaps; undefined where it works, or is not the caller's to read. */
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
  const applied = prefers(ctx.get('prefer'), 'respond-async') ? { 'preference-applied': 'respond-async' } : {};
  const body = {
    turn_id: turnId,
    run_id: params.run,
    status: 'running' as const,
    ...(waiting && { waiting_for: waiting }),
  };
  return { status: 202, body, replayed, headers: { location, ...applied } };
}

/** The same for what stays open: fires when the key is revoked or expires, or its token ends, too. */
export function untilEnded({ ctx, app, caller, context }: Omit<TurnRequest, 'params'>): AbortSignal {
  const revoked = new AbortController();
  ctx.res.once(
    'close',
    watchCaller(context, caller, () => revoked.abort()),
  );
  return untilGone(ctx, app.closing, revoked.signal);
}

/** Fires when the client has left or the server stops: neither cancels the work. */
function untilGone(ctx: ApiContext, ...ends: readonly AbortSignal[]): AbortSignal {
  const gone = new AbortController();
  const { signal, release } = linkSignals(gone.signal, ...ends);
  ctx.res.once('close', () => {
    gone.abort();
    release();
  });
  return signal;
}
