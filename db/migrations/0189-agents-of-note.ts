/**
 * The versions of agents that say how healthy they are, or that they take no runs: most do not, and to rank agents or to count them each
 * had to be read to learn that.
 */
import type { Migration } from './migration.ts';

export const agentsOfNote: Migration = {
  name: '0189-agents-of-note',
  up: async (knex) => {
    await knex.raw(`
      create index agent_versions_with_health on agent_versions (tenant_id, agent_id) where definition->'health' is not null;
      create index agent_versions_inactive on agent_versions (tenant_id, agent_id, version) where definition->'is_active' = 'false'::jsonb;
    `);
  },
};
