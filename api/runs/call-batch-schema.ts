/** A call batch in a turn's view. */
import { z } from 'zod';
import { RISK_LEVELS } from '../../core/tool.ts';
import type { CallBatchRow } from '../../modules/runs/read-runs.ts';

const when = z.iso.datetime();

export const callBatch = z
  .object({
    plan_id: z.uuid(),
    step: z.int(),
    status: z.enum(['proposed', 'approved', 'rejected', 'executing', 'completed', 'completed_with_errors']),
    purpose: z.string(),
    max_risk_level: z.enum(RISK_LEVELS),
    auto_executing: z.boolean(),
    steps: z.array(z.object({ tool_call_id: z.uuid(), tool: z.string(), risk_level: z.enum(RISK_LEVELS) })),
    approval_id: z.uuid().nullable(),
    reason: z.string().nullable(),
    created_at: when,
    completed_at: when.nullable(),
  })
  .meta({ id: 'Plan' });

export function presentCallBatch({
  id,
  created_at,
  completed_at,
  approved_at: _a,
  started_at: _s,
  ...row
}: CallBatchRow): z.input<typeof callBatch> {
  return {
    plan_id: id,
    ...row,
    created_at: created_at.toISOString(),
    completed_at: completed_at?.toISOString() ?? null,
  };
}
