/** What a model asked a call for, where a person or a policy has put other arguments in their place: a replay asks for the same. */
import type { Migration } from './migration.ts';

export const whatCallsWereAskedAs: Migration = {
  name: '0178-what-calls-were-asked-as',
  up: async (knex) => {
    await knex.raw('alter table tool_calls add column asked jsonb');
  },
};
