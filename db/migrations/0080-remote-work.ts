/** Calls whose work goes on elsewhere: what is known of it there, by which it is looked at and cancelled. */
import type { Migration } from './migration.ts';

export const remoteWork: Migration = {
  name: '0080-remote-work',
  up: async (knex) => {
    // Null for a call without remote work. Of a call that is settled: nobody wants it any more, and it is to be cancelled.
    await knex.raw('alter table tool_calls add column remote jsonb');
    await knex.raw(`create index tool_calls_remote on tool_calls (id) where remote is not null`);
  },
};
