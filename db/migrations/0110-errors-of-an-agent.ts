/** What a dashboard finds the errors of one agent by, however many others of its tenant have failed. */
import type { Migration } from './migration.ts';

export const errorsOfAnAgent: Migration = {
  name: '0110-errors-of-an-agent',
  up: async (knex) => {
    await knex.raw(`
      -- Whose turn it was, of those that have failed; null in all others, which nobody looks for by it, and in those that
      -- maintenance has not named yet.
      alter table turns add column failed_agent_id uuid;
      grant select (failed_agent_id) on turns to drover_maintenance;

      -- Whoever writes that a turn has failed: a commit of this build or of the one before, or what rebuilds projections.
      create function name_failed_agent() returns trigger language plpgsql as $$
      begin
        select r.agent_id into new.failed_agent_id from runs r where r.id = new.run_id;
        return new;
      end $$;
      create trigger name_failed_agent before insert or update on turns for each row
        when (new.status = 'failed' and new.failed_agent_id is null) execute function name_failed_agent();

      -- On a large table this would hold up whoever writes: there maintenance names the agents of turns that have failed, in
      -- batches, and makes the index beside writers (db/errors-index.ts).
      do $$ begin
        if pg_relation_size('turns') = 0 then
          create index turns_failed_of_agent on turns (failed_agent_id, completed_at desc, id desc) where status = 'failed';
        end if;
      end $$;
    `);
  },
};
