/** Workflows that go on from what another one has finished. */
import type { Migration } from './migration.ts';

export const restartedWorkflows: Migration = {
  name: '0063-restarted-workflows',
  up: async (knex) => {
    await knex.raw(`
      -- The workflow whose answer is that of this one, too: it is a recorded replay.
      alter table workflows add column recorded_from uuid;
    `);
  },
};
