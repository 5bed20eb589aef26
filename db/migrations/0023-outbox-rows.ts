/** A row of the outbox is one job, whatever its queue, with the time before which it shall not run and the job it is a part of. */
import type { Migration } from './migration.ts';

export const outboxRows: Migration = {
  name: '0023-outbox-rows',
  up: async (knex) => {
    await knex.raw(`
      -- Rows that stood for several calls: reconciliation sends those that are still to be made.
      -- Row level security is forced on the owner, too, and would show it no row.
      alter table outbox no force row level security;
      delete from outbox where children is not null;
      alter table outbox force row level security;
      alter table outbox drop column children;
      alter table outbox add column not_before timestamptz;
      -- queue, job_id
      alter table outbox add column parent jsonb;
    `);
  },
};
