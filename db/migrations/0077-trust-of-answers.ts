/** Whether somebody vouches for what a run has answered: whoever reads it as an input has to know. */
import type { Migration } from './migration.ts';

export const trustOfAnswers: Migration = {
  name: '0077-trust-of-answers',
  up: async (knex) => {
    // Of the last turn that has ended with an answer; null where it had read nothing of that kind, and in runs of older builds.
    await knex.raw('alter table runs add column trust trust');
  },
};
