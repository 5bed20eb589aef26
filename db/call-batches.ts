/** Reads call batches; `commit_run` writes them. */
import type { CallStatus } from '../core/call-state.ts';
import type { RiskLevel } from '../core/tool.ts';
import type { Tx } from './database.ts';
import { asColumns } from './query-builder.ts';

export interface CallBatchRow {
  id: string;
  step: number;
  purpose: string;
  max_risk_level: RiskLevel;
  auto_executing: boolean;
  status: 'proposed' | 'approved' | 'rejected' | 'executing' | 'completed' | 'completed_with_errors';
  steps: { tool_call_id: string; tool: string; risk_level: RiskLevel }[];
  approval_id: string | null;
  reason: string | null;
  created_at: Date;
  approved_at: Date | null;
  started_at: Date | null;
  completed_at: Date | null;
}

export async function listCallBatches(tx: Tx, runId: string, turnId: string): Promise<CallBatchRow[]> {
  return tx.query<CallBatchRow>(
    `select id, step, purpose, max_risk_level, auto_executing, status, steps, approval_id, reason, created_at, approved_at,
       started_at, completed_at from plans where run_id = $1 and turn_id = $2 order by step`,
    [runId, turnId],
  );
}

/** A run's executing call batch, with the steps that lack a result of their tool; undefined if there is none. */
export async function findExecutingCallBatch(
  tx: Tx,
  runId: string,
): Promise<{ id: string; step: number; failed: { tool_call_id: string; tool: string }[] } | undefined> {
  const [batch] = await tx.query<{ id: string; step: number; failed: { tool_call_id: string; tool: string }[] }>(
    `select p.id, p.step, (select coalesce(jsonb_agg(s - 'risk_level' order by list.place), '[]')
       from jsonb_array_elements(p.steps) with ordinality as list(s, place)
       ${asColumns(`(s->>'tool_call_id')::uuid as call`)} c left join tool_calls k on k.id = c.call where k.status is distinct from 'succeeded') as failed
     from plans p where p.run_id = $1 and p.status = 'executing'`,
    [runId],
  );
  return batch;
}

/** The outcome of a call in a batch. */
export interface BatchOutcome {
  name: string;
  status: CallStatus;
  error_code: string | null;
  /** The beginning of the tool's answer, or of the reason for having none. */
  preview: string;
}

/** The calls of a batch, in order. */
export async function listBatchOutcomes(
  tx: Tx,
  of: { callIds: readonly string[]; previewChars: number },
): Promise<BatchOutcome[]> {
  return tx.query<BatchOutcome>(
    `select name, status, error->>'code' as error_code, left(coalesce(error->>'message',
        (select string_agg(part->>'text', E'\n' order by place) from jsonb_array_elements(model_output) with ordinality as list(part, place)),
        output #>> '{}', ''), $2) as preview
      from tool_calls where id = any($1::uuid[]) order by place`,
    [of.callIds, of.previewChars],
  );
}

/** The policy that last required approval of a call; undefined if it was the autonomy matrix, or nobody was asked. */
export async function findAsking(
  tx: Tx,
  of: { runId: string; callId: string },
): Promise<{ id: string; version: number } | undefined> {
  const [row] = await tx.query<{ id: string | null; version: number }>(
    `select policy_id as id, policy_version as version from policy_decisions
      where run_id = $1 and tool_call_id = $2 and decision = 'require_approval' order by seq desc limit 1`,
    [of.runId, of.callId],
  );
  return row?.id ? { id: row.id, version: row.version } : undefined;
}
