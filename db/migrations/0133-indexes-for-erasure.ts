/** What is looked for by its run when that is erased, by its age, or while a sender has it, is found by an index: these tables grow. */
import type { Migration } from './migration.ts';

export const indexesForErasure: Migration = {
  name: '0133-indexes-for-erasure',
  up: async (knex) => {
    await knex.raw(`
      create index waits_by_run on waits (run_id);
      drop index waits_open;
      create index webhook_deliveries_with_errors on webhook_deliveries (run_id) where error is not null and run_id is not null;
      create index handoffs_by_workflow on handoffs (workflow_id) where workflow_id is not null;
      create index memory_archive_by_run on memory_archive (run_id) where run_id is not null;
      create index memory_accesses_age on memory_accesses (accessed_at) where run_id is null;
      create index webhooks_taken on webhooks (taken_until) where taken_until is not null;
      create index team_members_by_agent on team_members (agent_id);
      create index teams_by_supervisor on teams (supervisor_agent_id);
    `);
  },
};
