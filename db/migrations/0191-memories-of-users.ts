/** What is remembered of a user is found by an index. Refused texts and lengths of vectors are known, so that vectors are made anew. A limited space knows how many fragments it has. */
import type { Migration } from './migration.ts';

export const memoriesOfUsers: Migration = {
  name: '0191-memories-of-users',
  up: async (knex) => {
    await knex.raw(`
      -- A column, since row level security lets no index be searched by what stands in JSON. Empty in entries of before until
      -- maintenance has filled it (db/memory-indexes.ts), and null in those of nobody. The default is taken back at once, so
      -- that no row has to be written for it. Names of users end at 200 characters; a longer one in metadata is none of them.
      alter table memory_entries add column user_id text default '';
      alter table memory_entries alter column user_id drop default;
      grant select (user_id) on memory_entries to drover_maintenance;

      -- Whoever writes an entry or brings one back from the archive: a process of this build or of the one before.
      create function name_user_of_memory() returns trigger language plpgsql as $$
      begin
        new.user_id := left(nullif(new.metadata->>'user_id', ''), 201);
        return new;
      end $$;
      create trigger name_user_of_memory before insert or update of metadata, user_id on memory_entries for each row
        execute function name_user_of_memory();

      -- The lengths of the vectors that models give, and when somebody was last given one. Nothing of a tenant's.
      create table embedding_lengths (
        model text primary key,
        length integer not null,
        seen_at timestamptz not null
      );
      comment on table embedding_lengths is 'No content of runs: names of models';
      alter table embedding_lengths enable row level security;
      alter table embedding_lengths force row level security;
      create policy maintenance_embeds on embedding_lengths to drover_maintenance using (true) with check (true);
      grant select, insert, update on embedding_lengths to drover_maintenance;

      -- The fragments of a space that may have only so many, expired ones too until they are swept; null until it is counted once.
      -- A statement counts by itself: of a process of this build or of the one before, which both lock the space to add to it.
      alter table memory_spaces add column fragment_count integer;
      create function count_fragments() returns trigger language plpgsql as $$
      begin
        update memory_spaces s set fragment_count = s.fragment_count + case tg_op when 'INSERT' then n.changed else -n.changed end
          from (select space_id, count(*)::int as changed from changed_rows group by space_id) n
         where s.id = n.space_id and s.max_fragments is not null and s.fragment_count is not null;
        return null;
      end $$;
      create trigger count_added after insert on memory_fragments referencing new table as changed_rows
        for each statement execute function count_fragments();
      create trigger count_removed after delete on memory_fragments referencing old table as changed_rows
        for each statement execute function count_fragments();

      -- On large tables these would hold up whoever writes: there maintenance makes them beside writers.
      do $$ begin
        if pg_relation_size('memory_entries') = 0 then
          create index memory_entries_of_user on memory_entries (agent_id, user_id, status, importance desc, id);
          create index memory_entries_refused on memory_entries (agent_id, embedding_model)
            where embedding is null and embedding_model is not null and status in ('active', 'disputed');
        end if;
        if pg_relation_size('memory_fragments') = 0 then
          create index memory_fragments_refused on memory_fragments (space_id, embedding_model)
            where embedding is null and embedding_model is not null;
        end if;
      end $$;
    `);
  },
};
