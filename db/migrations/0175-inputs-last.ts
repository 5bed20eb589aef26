/**
 * What is long and never changes as the last columns. Of an updated row Postgres logs what lies between the first and the last change:
 * the end of a turn changes columns on both sides of its input and of what its run pins, which were written to the WAL once more then. A
 * database that has runs already keeps its order: there that is written again, and nothing else is different.
 */
import type { Migration } from './migration.ts';

export const inputsLast: Migration = {
  name: '0175-inputs-last',
  up: async (knex) => {
    await knex.raw(`do $$ begin
      alter table runs no force row level security;
      perform from runs limit 1;
      if not found then
        alter table turns drop column input, add column input jsonb not null;
        alter table runs drop column config, drop column pinned, add column config jsonb not null, add column pinned jsonb not null;
      end if;
      alter table runs force row level security;
    end $$`);
  },
};
