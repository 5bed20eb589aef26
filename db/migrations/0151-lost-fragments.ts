/** Maintenance finds fragments that still lack their vectors, as it finds entries: by their model, without a look at a vector. */
import type { Migration } from './migration.ts';

export const lostFragments: Migration = {
  name: '0151-lost-fragments',
  up: async (knex) => {
    await knex.raw(`
      drop index memory_fragments_unembedded;
      create index memory_fragments_unembedded on memory_fragments (space_id, id) where embedding_model is null;
      grant select (space_id, embedding_model, updated_at) on memory_fragments to drover_maintenance;
    `);
  },
};
