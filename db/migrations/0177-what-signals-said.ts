/** What a signal said whose sender has given its id: another one with that id is refused. */
import type { Migration } from './migration.ts';

export const whatSignalsSaid: Migration = {
  name: '0177-what-signals-said',
  up: async (knex) => {
    await knex.raw('alter table signals add column digest text');
  },
};
