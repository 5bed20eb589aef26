/** Who has said what a call is answered with, beside whether somebody vouches for it. */
import type { Migration } from './migration.ts';

export const originOfOutputs: Migration = {
  name: '0132-origin-of-outputs',
  up: async (knex) => {
    await knex.raw(`
      -- Null in calls that an older build has asked for.
      alter table tool_calls add column origin message_origin;
    `);
  },
};
