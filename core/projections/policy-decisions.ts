/** Decisions that the gate made by a rule. */
import type { Projection } from './projection.ts';

export const policyDecisions: Projection<'policy_decisions'> = {
  table: 'policy_decisions',
  key: 'seq',
  columns: [
    'tenant_id',
    'run_id',
    'seq',
    'turn_id',
    'tool_call_id',
    'decision',
    'stage',
    'policy_id',
    'policy_version',
    'reason',
    'created_at',
  ],
  unlogged: [],
  erased: { reason: '' },
  apply({ tenantId: tenant_id, runId: run_id, seq, at: created_at }, event) {
    if (event.type !== 'policy.decided') return undefined;
    const { tool_call_id, decision, stage, policy, reason } = event.payload;
    const turn_id = event.turn_id ?? null;
    const [policy_id, policy_version] = [policy?.id ?? null, policy?.version ?? null];
    const about = { turn_id, tool_call_id, decision, stage, policy_id, policy_version, reason };
    return { key: seq, insert: { tenant_id, run_id, seq, ...about, created_at } };
  },
};
