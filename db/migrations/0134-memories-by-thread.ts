/** What is remembered of a thread is found by an index, in the archive too, when the thread is erased. */
import type { Migration } from './migration.ts';

export const memoriesByThread: Migration = {
  name: '0134-memories-by-thread',
  up: async (knex) => {
    await knex.raw(`
      -- A column, since row level security lets no index be searched by what stands in JSON.
      alter table memory_archive add column thread_id text generated always as (entry->>'thread_id') stored;
      create index memory_archive_by_thread on memory_archive (thread_id) where thread_id is not null;
      create index memory_entries_by_thread on memory_entries (thread_id) where thread_id is not null;
    `);
  },
};
