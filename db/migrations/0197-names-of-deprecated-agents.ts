/** A new agent is compared with the last deprecated one of its name, which is found by the name, however many others are deprecated. */
import type { Migration } from './migration.ts';

export const namesOfDeprecatedAgents: Migration = {
  name: '0197-names-of-deprecated-agents',
  up: async (knex) => {
    await knex.raw(`create index agents_deprecated_named on agents (workspace_id, name) where status = 'deprecated'`);
  },
};
