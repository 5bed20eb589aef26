/** Sessions: threads that a user talks on, and the message that waits while a turn is open. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const sessions: Migration = {
  name: '0032-sessions',
  up: async (knex) => {
    await knex.raw(`
      -- The last message that was queued, and the id of the last one that was taken: it waits while they differ.
      alter table runs add column queued jsonb;
      alter table runs add column dequeued_id uuid;

      create table sessions (
        id uuid primary key references threads (id),
        tenant_id uuid not null references tenants (id),
        workspace_id uuid not null,
        agent_id uuid not null,
        user_id text not null,
        autonomy_level smallint not null check (autonomy_level between 0 and 3),
        context jsonb not null default '{}',
        archived_at timestamptz,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      ${tenantTable('sessions')}
    `);
  },
};
