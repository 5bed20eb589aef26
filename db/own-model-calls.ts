/** Drover's own model calls: one row each, with a reservation of the same id that budgets count. */
import type { TokenUsage } from '../core/model.ts';
import type { Tx } from './database.ts';

interface NewOwnCall {
  id: string;
  tenantId: string;
  workspaceId: string;
  agentId: string | null;
  threadId: string | null;
  runId: string | null;
  /** The run whose budget also pays for the call; the call's own id if there is none. */
  rootRunId: string;
  /** The run that the call is for, below those above it, root first. */
  chain?: string[] | undefined;
  purpose: string;
  provider: string;
  model: string;
  /** Amounts reserved; USD is null if the price is unknown. */
  tokens: number;
  cost: string | null;
  leaseMs: number;
}

/** Sums of such calls by purpose: an `OwnUsageRow`. */
export const OWN_USAGE = `count(*) as calls, sum(tokens_in)::bigint as tokens_in, sum(tokens_out)::bigint as tokens_out,
  coalesce(sum(cost_usd), 0) as cost_usd, count(*) filter (where cost_usd is null) as unpriced`;

/** The purpose of calls for a run that its usage does not count: whoever hands its work over does not hold its log. */
export const HANDOFF_SUMMARY = 'handoff_summary';

/** What embeddings of a provider are made for: memories and fragments, questions to these, worked examples, skills. */
export const EMBEDDING_PURPOSES = [
  'memory_embeddings',
  'recall_embeddings',
  'example_embeddings',
  'skill_embeddings',
] as const;
export type EmbeddingPurpose = (typeof EMBEDDING_PURPOSES)[number];

/** SQL: the purposes of calls whose usage is no run's, though they may be for one. */
export const PURPOSES_IN_NO_RUN = [HANDOFF_SUMMARY, ...EMBEDDING_PURPOSES].map((each) => `'${each}'`).join(', ');

export interface OwnUsageRow {
  purpose: string;
  calls: number;
  tokens_in: number;
  tokens_out: number;
  /** Of calls with known cost. */
  cost_usd: string;
  /** Number of calls with unknown cost. */
  unpriced: number;
}

/** The agent id for reservations of calls that belong to no agent. */
export const NO_AGENT = '00000000-0000-0000-0000-000000000000';

/** The step of a call's reservation. Below 0 it is none that `max_steps` of a budget counts. */
export function stepOf(purpose: string): number {
  return EMBEDDING_PURPOSES.some((each) => each === purpose) ? -1 : 0;
}

/** Inserts a call about to be made, and its reservation. One statement. */
export async function beginOwnCall(tx: Tx, call: NewOwnCall): Promise<void> {
  await tx.query(
    `with call as (
       insert into own_model_calls (id, tenant_id, workspace_id, agent_id, thread_id, run_id, purpose, provider, model, state, lease_expires_at)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'open', clock_timestamp() + $15 * interval '1 ms'))
     insert into reservations (run_id, step, fence, tenant_id, workspace_id, agent_id, root_run_id, chain, state, tokens, cost_usd, created_at)
       values ($1, $16, 0, $2, $3, $10, $11, $14, 'open', $12, $13, clock_timestamp())`,
    [
      call.id,
      call.tenantId,
      call.workspaceId,
      call.agentId,
      call.threadId,
      call.runId,
      call.purpose,
      call.provider,
      call.model,
      call.agentId ?? NO_AGENT,
      call.rootRunId,
      call.tokens,
      call.cost,
      call.chain ?? null,
      call.leaseMs,
      stepOf(call.purpose),
    ],
  );
}

/** Renews the lease of an open call. One statement. */
export async function renewOwnCallLease(tx: Tx, id: string, leaseMs: number): Promise<void> {
  await tx.query(
    `update own_model_calls set lease_expires_at = clock_timestamp() + $2 * interval '1 ms' where id = $1 and state = 'open'`,
    [id, leaseMs],
  );
}

export interface OwnCallEnd {
  /** settled: at actual usage; released: not made, or nothing used. */
  state: 'settled' | 'estimated' | 'released';
  tokensIn: number;
  tokensOut: number;
  cost: string | null;
  usage?: TokenUsage;
  errorCode?: string;
}

/** Settles an open call; one already given up gets its actual usage. One statement. */
export async function settleOwnCall(tx: Tx, id: string, end: OwnCallEnd): Promise<void> {
  const { state, tokensIn, tokensOut, cost, usage, errorCode } = end;
  await tx.query(
    `with call as (
       update own_model_calls set state = $2, tokens_in = $3, tokens_out = $4, cost_usd = $5, usage = $6::jsonb, error_code = $7,
         settled_at = clock_timestamp() where id = $1 and state in ('open', 'estimated'))
     update reservations set state = $2, tokens = $8, cost_usd = $5, settled_at = now()
       where run_id = $1 and state in ('open', 'estimated') and not rolled_up`,
    [
      id,
      state,
      tokensIn,
      tokensOut,
      cost,
      usage ? JSON.stringify(usage) : null,
      errorCode ?? null,
      tokensIn + tokensOut,
    ],
  );
}

/**
 * Settles calls of a tenant for which nobody waits any more, at the reserved amounts; returns how many. Nobody does once the
 * lease is over, and after `longestMs` in any case: a process of 0.1.0 gives its calls no lease.
 */
export async function settleLostOwnCalls(tx: Tx, tenantId: string, longestMs: number): Promise<number> {
  const rows = await tx.query(
    `with lost as (
       update own_model_calls set state = 'estimated', settled_at = clock_timestamp()
         where tenant_id = $1 and state = 'open'
           and least(lease_expires_at, created_at + $2 * interval '1 ms') < clock_timestamp() returning id)
     update reservations r set state = 'estimated', settled_at = now() from lost
       where r.run_id = lost.id and r.state = 'open' returning 1 as one`,
    [tenantId, longestMs],
  );
  return rows.length;
}
