/** What a dashboard finds the errors of one agent by, however many others of its tenant have failed. */
import type { Migration } from './migration.ts';

export const errorsOfAnAgent: Migration = {
  name: '0110-errors-of-an-agent',
  up: async (knex) => {
    await knex.raw(`
      -- Whose turn it was, of those that have failed; null in all others, which nobody looks for by it.
      alter table turns add column failed_agent_id uuid;

      -- Whoever writes that a turn has failed: a commit of this build or of the one before, or what rebuilds projections.
      create function name_failed_agent() returns trigger language plpgsql as $$
      begin
        select r.agent_id into new.failed_agent_id from runs r where r.id = new.run_id;
        return new;
      end $$;
      create trigger name_failed_agent before insert or update on turns for each row
        when (new.status = 'failed' and new.failed_agent_id is null) execute function name_failed_agent();

      -- Row level security is forced on the owner, too, and would show it no row.
      alter table turns no force row level security;
      alter table runs no force row level security;
      update turns u set failed_agent_id = r.agent_id from runs r where r.id = u.run_id and u.status = 'failed';
      alter table turns force row level security;
      alter table runs force row level security;

      create index turns_failed_of_agent on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed';
    `);
  },
};
