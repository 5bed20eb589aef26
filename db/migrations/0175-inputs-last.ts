/**
 * The input of a turn as the last column. Of an updated row Postgres logs what lies between the first and the last change: a turn's end
 * changes columns on both sides of the input, which was written to the WAL once more then. A database that has turns already keeps
 * its order; there each run writes its input once more, and nothing else is different.
 */
import type { Migration } from './migration.ts';

export const inputsLast: Migration = {
  name: '0175-inputs-last',
  up: async (knex) => {
    await knex.raw(`do $$ begin
      perform from turns limit 1;
      if not found then alter table turns drop column input, add column input jsonb not null; end if;
    end $$`);
  },
};
