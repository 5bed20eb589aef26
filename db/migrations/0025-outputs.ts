/** What a model sees of a tool's output is kept apart from the whole, and a run knows how much it keeps. */
import type { Migration } from './migration.ts';

export const outputs: Migration = {
  name: '0025-outputs',
  up: async (knex) => {
    await knex.raw(`
      -- Content blocks; null where the model sees the output as it is.
      alter table tool_calls add column model_output jsonb;
      -- What was stored before is split by maintenance, which finds it here. The size is toolOutputForModelBytes of core/limits.ts.
      create index tool_calls_unsplit on tool_calls (id) where output_bytes > 1048576 and model_output is null;
      -- Bytes of the outputs that the run's calls have stored.
      alter table runs add column output_bytes bigint not null default 0;
    `);
  },
};
