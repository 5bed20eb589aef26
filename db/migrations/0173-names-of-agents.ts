/** Names of agents, unique in a workspace among those that are not deprecated. */
import type { Migration } from './migration.ts';

export const namesOfAgents: Migration = {
  name: '0173-names-of-agents',
  up: async (knex) => {
    await knex.raw(`
      -- Whether nobody else may have its name. Not so where it shares one from the time when agents could, and where a process
      -- of 0.1.0 has made it.
      alter table agents add column name_is_own boolean not null default false;
      alter table agents no force row level security;
      update agents a set name_is_own = true where status <> 'deprecated' and not exists (
        select from agents b where b.workspace_id = a.workspace_id and b.name = a.name and b.status <> 'deprecated'
          and (b.created_at, b.id) < (a.created_at, a.id));
      alter table agents force row level security;
      create unique index agents_by_name on agents (workspace_id, name) where name_is_own and status <> 'deprecated';
      -- Who has a name, shared or not.
      create index agents_named on agents (workspace_id, name) where status <> 'deprecated';
    `);
  },
};
