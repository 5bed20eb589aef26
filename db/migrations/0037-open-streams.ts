/** What one look for all open streams of a process reads, whosever they are. */
import type { Migration } from './migration.ts';

export const openStreams: Migration = {
  name: '0037-open-streams',
  up: async (knex) => {
    await knex.raw(`
      create policy maintenance_look_for_streams on threads for select to drover_maintenance using (true);
      create policy maintenance_look_for_streams on sessions for select to drover_maintenance using (true);
      grant select (id, head_run_id) on threads to drover_maintenance;
      grant select (id, archived_at) on sessions to drover_maintenance;
    `);
  },
};
