/** Names of agents, unique in a workspace among those that are not deprecated. */
import type { Migration } from './migration.ts';

export const namesOfAgents: Migration = {
  name: '0173-names-of-agents',
  up: async (knex) => {
    await knex.raw(`
      -- The name that nobody else may have. Another one than its name, or none, where it shares that: from the time when agents
      -- could, and where a process of 0.1.0 has made it or called it so.
      alter table agents add column own_name text;
      alter table agents no force row level security;
      update agents set own_name = name where id in (
        select distinct on (workspace_id, name) id from agents where status <> 'deprecated'
          order by workspace_id, name, created_at, id);
      alter table agents force row level security;
      create unique index agents_by_name on agents (workspace_id, own_name) where own_name = name and status <> 'deprecated';
      -- Who has a name, shared or not.
      create index agents_named on agents (workspace_id, name) where status <> 'deprecated';
    `);
  },
};
