/** Makes requests for embeddings like Drover's other model calls: within the limits of their model, reserved before, settled after. */
import { ancestorsOf } from '../../core/run-config.ts';
import { NO_TOKENS } from '../../core/model.ts';
import { checkBudgets, type ReservedCall } from '../../db/budgets.ts';
import { findPayer } from '../../db/embedding-payers.ts';
import { beginOwnCall, NO_AGENT, settleOwnCall, stepOf, type OwnCallEnd } from '../../db/own-model-calls.ts';
import { newId } from '../../lib/new-id.ts';
import { TextsRefused } from '../../llm/embed-each.ts';
import type { EmbeddingAnswer, EmbeddingPayer, EmbeddingRequest, PayForEmbeddings } from '../../llm/embed-texts.ts';
import { mostCostOf, priceOfAnswer } from '../../llm/prices.ts';
import { countSpending, type Spent } from './count-spending.ts';
import type { ModelCallContext } from './model-call-context.ts';
import { keepLease, NOTHING, stateFor } from './own-call.ts';
import { NotSentNow, withinPace } from './pace-embeddings.ts';

type PayingContext = Pick<ModelCallContext, 'db' | 'budgets' | 'metrics' | 'config'>;

/** How long texts wait for their vectors that a budget leaves nothing for, in ms. */
const BUDGET_PAUSE_MS = 60_000;

/** A process's accounts. A request that is given up counts as estimated; one that the server does not take costs nothing. */
export function payForEmbeddings(context: PayingContext): PayForEmbeddings {
  return (payer, request, send) => withinPace(context.db, request, () => pay(context, { payer, request, send }));
}

interface Paid<A> {
  payer: EmbeddingPayer;
  request: EmbeddingRequest;
  send: () => Promise<A>;
}

async function pay<A extends EmbeddingAnswer>(context: PayingContext, { payer, request, send }: Paid<A>): Promise<A> {
  const call = await begin(context, payer, request);
  const end = (how: OwnCallEnd) =>
    context.db.withTenantOnce(payer.tenantId, (tx) => settleOwnCall(tx, call.run_id, how));
  const settle = async (answer: Partial<EmbeddingAnswer>, errorCode?: string) => {
    const spent = spentBy(request, answer);
    const { usage, cost } = spent;
    const state = stateFor(usage);
    await end({ state, tokensIn: usage.input, tokensOut: 0, cost, usage, ...(errorCode && { errorCode }) });
    countSpending(context, spent);
  };
  const fits = await hasRoom(context, call).catch(async (error: unknown) => {
    // Nothing is sent. If this cannot be said either, the lease settles it.
    await end({ state: 'released', ...NOTHING }).catch(() => undefined);
    throw error;
  });
  if (!fits || request.signal.aborted) {
    await end({ state: 'released', ...NOTHING, errorCode: fits ? 'aborted' : 'budget' });
    request.signal.throwIfAborted();
    throw new NotSentNow('No budget is left for embeddings.', BUDGET_PAUSE_MS);
  }
  const leave = keepLease(context, payer.tenantId, call.run_id);
  try {
    const answer = await send().catch(async (error: unknown) => {
      await (request.signal.aborted ? settle({}, 'aborted') : end(failureOf(error)));
      throw error;
    });
    await settle(answer);
    return answer;
  } finally {
    leave();
  }
}

/** Records the request with its reservation, which is all or nothing: a prompt in place of an answer. */
function begin(
  { db, config }: PayingContext,
  payer: EmbeddingPayer,
  { provider, model, tokens }: EmbeddingRequest,
): Promise<ReservedCall> {
  const { tenantId, agentId, purpose } = payer;
  const id = newId();
  const cost = mostCostOf(provider, model, { input: tokens });
  return db.withTenant(tenantId, async (tx) => {
    const found = await findPayer(tx, payer);
    if (!found) throw new Error('nobody was found who pays');
    const { workspace_id: workspaceId, run } = found;
    const rootRunId = run?.root_run_id ?? id;
    const ancestors = run ? ancestorsOf(run) : undefined;
    await beginOwnCall(tx, {
      id,
      tenantId,
      workspaceId,
      agentId: agentId ?? null,
      threadId: null,
      runId: run?.id ?? null,
      rootRunId,
      chain: ancestors?.map(({ run_id }) => run_id),
      purpose,
      provider,
      model,
      tokens,
      cost,
      leaseMs: config.leaseMs,
    });
    return {
      run_id: id,
      root_run_id: rootRunId,
      tenant_id: tenantId,
      workspace_id: workspaceId,
      agent_id: agentId ?? NO_AGENT,
      step: stepOf(purpose),
      fence: 0,
      ...(ancestors && { ancestors }),
      input: 0,
      input_cost: '0',
      output: tokens,
      output_cost: cost,
      least: tokens,
    };
  });
}

/** Whether all budgets leave room for it. */
async function hasRoom({ db, budgets }: PayingContext, call: ReservedCall): Promise<boolean> {
  const isOfRun = call.ancestors?.some(({ budget }) => budget !== undefined);
  if (!isOfRun && !(await budgets.applyTo(call))) return true;
  return (await checkBudgets(db, call)).fits;
}

/** Where nobody knows what a request has used, its estimate counts. */
function spentBy({ provider, model, tokens }: EmbeddingRequest, answer: Partial<EmbeddingAnswer>): Spent {
  const counted = answer.tokens;
  const usage = { ...NO_TOKENS, input: counted ?? tokens, ...(counted === undefined && { estimated: true }) };
  const named = { provider, model: answer.model ?? model };
  return { ...named, usage, cost: priceOfAnswer(model, { ...named, usage }).cost };
}

function failureOf(error: unknown): OwnCallEnd {
  return {
    state: 'released',
    ...NOTHING,
    errorCode: error instanceof TextsRefused ? 'invalid_request' : 'unavailable',
  };
}
