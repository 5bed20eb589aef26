/** Commits do without what each statement on a run and on a turn had to set up anew: a check of a column, and a trigger. */
import { readFile } from 'node:fs/promises';
import type { Migration } from './migration.ts';

const APPLY_TURNS = new URL('../functions/apply-turns.sql', import.meta.url);

export const leanCommits: Migration = {
  name: '0170-lean-commits',
  up: async (knex) => {
    // In the transaction that drops the trigger: no turn fails in between without saying whose it was.
    await knex.raw((await readFile(APPLY_TURNS, 'utf8')).replaceAll('?', String.raw`\?`));
    await knex.raw(`
      -- The schema of the events says it, too; Postgres reads and plans the check of a table in each statement that writes there.
      alter table runs drop constraint if exists runs_structured_check;
      alter table turns drop constraint if exists turns_structured_check;
      -- A trigger before an update locks each row first.
      drop trigger name_failed_agent on turns;
      drop function name_failed_agent();
    `);
  },
};
