/** The list of an agent's memories is read in its order; forgetting reads entries made from others and superseded ones alone. */
import type { Migration } from './migration.ts';

export const readingMemories: Migration = {
  name: '0190-reading-memories',
  up: async (knex) => {
    await knex.raw(`
      create index memory_entries_listed on memory_entries (agent_id, status, importance desc, id);
      create index memory_entries_made on memory_entries (agent_id) where made_from is not null;
      create index memory_entries_lost on memory_entries (agent_id) where superseded_by is not null;
    `);
  },
};
