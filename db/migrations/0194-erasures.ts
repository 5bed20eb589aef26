/** What is to be erased is written down until it is done: a process that dies meanwhile leaves the rest to maintenance. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

const READ = ['runs', 'threads', 'audit_log'];

export const erasures: Migration = {
  name: '0194-erasures',
  up: async (knex) => {
    const forced = (how: string) => READ.map((table) => `alter table ${table} ${how} row level security;`).join('\n');
    await knex.raw(`
      create table erasures (
        kind text not null check (kind in ('run', 'thread')),
        -- Of the run or the thread.
        id uuid not null,
        tenant_id uuid not null references tenants (id),
        -- Whether runs that share its messages go, too.
        dependents boolean not null,
        -- For the audit log.
        asked_by jsonb not null,
        -- Moved on while somebody is at it.
        due_at timestamptz not null default clock_timestamp() + interval '1 minute',
        primary key (kind, id)
      );
      create index erasures_due on erasures (due_at);

      -- Threads that earlier builds have marked before their runs were erased. Dependents that were to stay would have had them
      -- refused. Row level security is forced on the owner, too, and would show it no row.
      ${forced('no force')}
      insert into erasures (kind, id, tenant_id, dependents, asked_by, due_at)
        select 'thread', t.id, t.tenant_id, true, coalesce((
            select jsonb_build_object('keyId', a.actor_id, 'workspaceId', a.workspace_id, 'isOperator', a.actor_type = 'operator')
              from audit_log a where a.tenant_id = t.tenant_id and a.action = 'thread.erased' and a.target_id = t.id::text
                and a.actor_id is not null limit 1), '{}'), clock_timestamp()
          from threads t where t.erased_at is not null
            and exists (select from runs r where r.thread_id = t.id and r.erased_at is null);
      ${forced('force')}
      ${tenantTable('erasures')}
      comment on table erasures is 'No content of runs: ids of what goes, and who asked for it';
      create policy maintenance_takes_erasures on erasures to drover_maintenance using (true) with check (true);
      grant select, update on erasures to drover_maintenance;
    `);
  },
};
