/** What clients keep with a turn, such as what they have charged for it, beside what the log has of it. */
import type { Migration } from './migration.ts';

export const extrasOfTurns: Migration = {
  name: '0130-extras-of-turns',
  up: async (knex) => {
    await knex.raw(`alter table turns add column extras jsonb not null default '{}'`);
  },
};
