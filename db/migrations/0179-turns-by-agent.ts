/** Turns say whose they are, so that the newest of an agent are found in all of its runs. Those of before do not, and are older than all that do. */
import type { Migration } from './migration.ts';

export const turnsByAgent: Migration = {
  name: '0179-turns-by-agent',
  up: async (knex) => {
    await knex.raw(`alter table turns add column agent_id uuid`);
    // No turn says it yet: the index is made at once.
    await knex.raw(
      `create index turns_of_agent on turns (agent_id, created_at desc, id desc) where agent_id is not null`,
    );
  },
};
