/** What plans of models need to be remembered: how often, and whether the answer met its criteria. */
import type { Migration } from './migration.ts';

export const workflowPlans: Migration = {
  name: '0044-plans',
  up: async (knex) => {
    await knex.raw(`
      alter table workflows
        -- Plans so far, that of the definition included.
        add column plans integer not null default 0,
        -- What the last look has missed.
        add column gaps jsonb not null default '[]',
        -- Null where nobody has looked.
        add column meets_criteria boolean;
    `);
  },
};
