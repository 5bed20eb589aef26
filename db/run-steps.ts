/** Steps of a run, for comparing runs: a model call with its tool calls. */
import type { StoredBlock } from '../core/content.ts';
import type { CallStatus } from '../core/state.ts';
import type { Tx } from './database.ts';
import { commitUpTo } from './run-log.ts';

interface StepCall {
  tool: string;
  arguments: Record<string, unknown>;
  status: CallStatus;
  /** MD5 of the output, to compare outputs without reading them. */
  output_md5: string | null;
  is_error: boolean | null;
  latency_ms: number | null;
  recorded: boolean;
}

export interface StepRow {
  step: number;
  provider: string;
  model: string;
  recorded: boolean;
  stop_reason: string;
  tokens_in: number;
  tokens_out: number;
  cost_usd: string | null;
  latency_ms: number;
  content: StoredBlock[] | null;
  calls: StepCall[];
}

/** A run's own steps up to a number, in order. */
export async function listSteps(tx: Tx, runId: string, upTo: number): Promise<StepRow[]> {
  return tx.query<StepRow>(
    `select c.step, c.provider, c.model, c.recorded, c.stop_reason, c.tokens_in, c.tokens_out, c.cost_usd, c.latency_ms,
       m.content, coalesce((select jsonb_agg(jsonb_build_object('tool', k.name, 'arguments', k.arguments,
         'status', k.status, 'output_md5', md5(k.output::text), 'is_error', k.is_error, 'latency_ms', k.latency_ms,
         'recorded', k.recorded_from is not null and k.attempt = 0) order by k.place)
         from tool_calls k where k.run_id = c.run_id and k.step = c.step), '[]') as calls
     from llm_calls c left join messages m on m.lineage = c.lineage and m.ordinal = c.length
     where c.run_id = $1 and c.step <= $2 order by c.seq`,
    [runId, upTo],
  );
}

/** The run from which a run was forked, and how many of that run's steps precede the point. */
export async function findFork(tx: Tx, runId: string): Promise<{ run: string; steps: number } | undefined> {
  const [row] = await tx.query<{ run: string; steps: number }>(
    `select (payload->>'from_run_id')::uuid as run, (payload->>'steps')::int as steps from run_events
     where run_id = $1 and commit_seq = (select ${commitUpTo('$1', '2')}) and seq = 2 and type = 'run.forked'`,
    [runId],
  );
  return row;
}
