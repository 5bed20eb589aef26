/** Calls of tools that a binding limits, counted by the second: what is taken of a minute's calls slides with it. */
import type { Migration } from './migration.ts';

export const callsBySecond: Migration = {
  name: '0068-calls-by-second',
  up: async (knex) => {
    await knex.raw(`
      -- Seconds since 1970 of the last minute in which something was taken, and how much in each.
      alter table rate_counts add column seconds bigint[], add column counts integer[];
    `);
  },
};
