/** A thread knows its last run and how many it has had; a run knows its place. Ids and clocks of processes say neither. */
import type { Migration } from './migration.ts';

export const threadHead: Migration = {
  name: '0024-thread-head',
  up: async (knex) => {
    await knex.raw(`
      alter table threads add column head_run_id uuid, add column run_count integer not null default 0;
      alter table runs add column thread_place integer;

      -- By the database's clock, which gave them their times. Row level security is forced on the owner, too, and would
      -- show it no row.
      alter table runs no force row level security;
      alter table threads no force row level security;
      update runs r set thread_place = ranked.place
        from (select id, row_number() over (partition by thread_id order by created_at, id) as place from runs) ranked
        where ranked.id = r.id;
      update threads t set head_run_id = r.id, run_count = r.thread_place
        from (select distinct on (thread_id) id, thread_id, thread_place from runs order by thread_id, thread_place desc) r
        where r.thread_id = t.id;
      alter table runs force row level security;
      alter table threads force row level security;

      -- Processes of 0.1.0 create runs without a place.
      create function place_run() returns trigger language plpgsql as $$
      begin
        update threads set head_run_id = new.id, run_count = run_count + 1 where id = new.thread_id
          returning run_count into new.thread_place;
        return new;
      end $$;
      create trigger place_run before insert on runs for each row when (new.thread_place is null)
        execute function place_run();
    `);
  },
};
