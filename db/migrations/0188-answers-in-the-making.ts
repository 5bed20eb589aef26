/** A workflow's answer that waits for its check, or for a plan for its gaps: a model is not asked for it again. */
import type { Migration } from './migration.ts';

export const answersInTheMaking: Migration = {
  name: '0188-answers-in-the-making',
  up: async (knex) => {
    await knex.raw('alter table workflows add column draft jsonb');
  },
};
