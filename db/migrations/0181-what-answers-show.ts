/** Answers kept for an `Idempotency-Key` are found by what they show, as when that is erased or forgotten. */
import type { Migration } from './migration.ts';

export const whatAnswersShow: Migration = {
  name: '0181-what-answers-show',
  up: async (knex) => {
    await knex.raw(`
      -- Generated, so that answers of a day ago and those of older processes have it, too. Null for the answers that come most
      -- often, to runs and turns: these pay for no index.
      alter table idempotency_keys add column shown_id text generated always as (response->>'id') stored;
      create index idempotency_keys_by_shown on idempotency_keys (shown_id) where shown_id is not null;
    `);
  },
};
