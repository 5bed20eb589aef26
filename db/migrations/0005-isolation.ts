/**
 * Row level security on every table, forced on its owner too, and what each of the two roles may do. `drover_app` sees
 * the tenant that is set for the transaction and nothing where none is set; `drover_maintenance` has a named policy
 * for each act that has no tenant yet, and no right beyond it.
 */
import type { Migration } from './migration.ts';
import { isolate, tenantTable } from './tenant-table.ts';

const TENANT_TABLES = [
  'workspaces',
  'api_keys',
  'agents',
  'agent_versions',
  'tools',
  'tool_versions',
  'idempotency_keys',
  'threads',
  'runs',
  'turns',
  'tool_calls',
  'approvals',
  'signals',
  'outbox',
  'run_events',
  'messages',
  'checkpoints',
];

/** What is written once is never changed: not even by a mistake in the service. */
const APPEND_ONLY = ['run_events', 'messages', 'checkpoints', 'agent_versions', 'tool_versions'];

/** Table, act, what it is for. */
const MAINTENANCE: readonly (readonly [table: string, act: 'select' | 'insert' | 'update' | 'delete', name: string])[] =
  [
    ['api_keys', 'select', 'maintenance_key_lookup'],
    ['agents', 'select', 'maintenance_suspended_agents'],
    ['tenants', 'select', 'maintenance_tenant_lookup'],
    ['tenants', 'insert', 'maintenance_tenant_creation'],
    ['workspaces', 'select', 'maintenance_workspace_lookup'],
    ['outbox', 'select', 'maintenance_outbox_sweep'],
    ['outbox', 'delete', 'maintenance_outbox_sent'],
    ['runs', 'select', 'maintenance_reconcile_runs'],
    ['tool_calls', 'select', 'maintenance_reconcile_calls'],
    ['approvals', 'select', 'maintenance_find_due_approvals'],
    ['idempotency_keys', 'select', 'maintenance_find_old_keys'],
    ['idempotency_keys', 'delete', 'maintenance_expire_keys'],
  ];

export const isolation: Migration = {
  name: '0005-isolation',
  up: async (knex) => {
    const protect = (table: string) => tenantTable(table, APPEND_ONLY.includes(table) ? 'select, insert' : undefined);
    const tenants = `${isolate('tenants', 'id')}
      grant select, insert, update, delete on tenants to drover_app;`;
    await knex.raw(TENANT_TABLES.map(protect).join('\n') + tenants);
    // It shows whoever asks no more than the tables beneath do.
    await knex.raw('grant select on llm_calls to drover_app');
    for (const [table, act, name] of MAINTENANCE) {
      const clause = act === 'insert' ? 'with check (true)' : 'using (true)';
      await knex.raw(`create policy ${name} on ${table} for ${act} to drover_maintenance ${clause};
        grant ${act} on ${table} to drover_maintenance;`);
    }
    await knex.raw(`
      revoke execute on function ensure_partition(text, text, date), ensure_partitions(integer),
        rows_in_default_partitions() from public;
      grant execute on function ensure_partitions(integer), rows_in_default_partitions() to drover_maintenance;`);
  },
};
