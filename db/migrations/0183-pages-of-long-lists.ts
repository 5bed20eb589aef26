/** Pages of long lists read what they show: turns of a thread by the places of its runs. */
import type { Migration } from './migration.ts';

export const pagesOfLongLists: Migration = {
  name: '0183-pages-of-long-lists',
  up: async (knex) => {
    await knex.raw(`
      create index runs_of_thread on runs (thread_id, thread_place);
      create index runs_counted_apart on runs (thread_id, thread_place) where turn_count <> 1 or forked_from_run_id is not null;
      drop index runs_by_thread;
    `);
  },
};
