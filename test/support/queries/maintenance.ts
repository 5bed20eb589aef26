/** What acts of maintenance have to do, as tests make it. */
import type { Database } from '../../../db/database.ts';
import { fillTables } from './fill.ts';

/** One row each, of a tenant that is not there, which gives one act something to do. */
const WORK = {
  'expire-approvals': `insert into approvals (id, tenant_id, kind, tool, arguments, digest, status, expires_at, created_at)
    values (gen_random_uuid(), $id, 'approval', 't', '{}', 'd', 'pending', now(), now())`,
  'end-waits': `insert into waits (id, tenant_id, run_id, turn_id, type, until, created_at)
    values (gen_random_uuid(), $id, $id, $id, 'timer', now(), now())`,
  'end-tasks': `insert into tasks (id, tenant_id, workspace_id, workflow_id, name, place, description, requirements, dependencies,
      status, deadline)
    values (gen_random_uuid(), $id, $id, $id, 'a', 0, 'd', '{}', '{}', 'pending', now())`,
  'lapse-agents': `insert into agents (id, tenant_id, workspace_id, name, status, current_version, last_heartbeat_at)
    values (gen_random_uuid(), $id, $id, 'a', 'active', '1.0.0', now() - interval '1 day')`,
  'carry-handoffs': `insert into handoffs (id, tenant_id, workspace_id, source_agent_id, target_agent_id, place, carried_by, status,
      reason, urgency, context, schema_version, checksum, target_tokens, summary, summary_tokens, full_tokens)
    values (gen_random_uuid(), $id, $id, $id, $id, 0, 'run', 'initiated', 'r', 'medium', '{}', '1', 'c', 0, '{}', 0, 0)`,
  'wake-parked': `insert into parked_runs (run_id, outage, tenant_id, parked_at, until)
    values ($id, 'away', $id, now(), now() + interval '1 hour')`,
  'title-threads': 'insert into due_titles (thread_id, tenant_id, due_at) values ($id, $id, now())',
  'send-webhooks': `insert into webhook_deliveries (id, tenant_id, webhook_id, type, status, next_at)
    values (gen_random_uuid(), $id, $id, 't', 'pending', now())`,
  'sweep-outbox': `insert into outbox (id, tenant_id, queue, job_id, payload, created_at)
    values (gen_random_uuid(), $id, 'turns', 'j', '{}', now() - interval '1 minute')`,
  'seal-audit': `insert into audit_log (id, tenant_id, action, actor_type, target_type)
    values (gen_random_uuid(), $id, 'a', 'system', 't')`,
  'embed-skills': `insert into skills (tenant_id, name) values ($id, 's')`,
  'settle-budgets': `insert into reservations (run_id, step, fence, tenant_id, workspace_id, agent_id, root_run_id, state, tokens, created_at)
    values ($id, 0, 0, $id, $id, $id, $id, 'open', 0, now())`,
  'roll-up-usage': `insert into runs (id, tenant_id, workspace_id, agent_id, agent_version, thread_id, kind, status, turn_count, keep_open,
      lineage, lineage_base, base_length, length, steps, tokens_in, tokens_out, depth, created_at, updated_at, last_seq, fence, dormant,
      config, pinned)
    values ($id, $id, $id, $id, '1.0.0', $id, 'agent', 'completed', 0, false, $id, '[]', 0, 0, 0, 0, 0, 0, now(), now(), 0, 0, false,
      '{}', '{}')`,
  'finish-erasures': `insert into erasures (kind, id, tenant_id, dependents, asked_by, due_at)
    values ('run', $id, $id, false, '{}', now())`,
} as const;

/** Acts that are sent only where they may have something to do. */
export const ACTS_ON_DEMAND = Object.keys(WORK) as (keyof typeof WORK)[];

/** Gives these acts something to do. */
export async function makeWorkFor(db: Pick<Database, 'asOwner'>, acts: readonly (keyof typeof WORK)[]): Promise<void> {
  await fillTables(db, { id: '00000000-0000-7000-8000-00000000dead' }, async (run) => {
    for (const act of acts) await run(WORK[act]);
  });
}
