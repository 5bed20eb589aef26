/** Objectives are found by their runs, whose erasure takes their texts; agents, runs and threads by their metadata. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

const WITH_METADATA = ['agent_versions', 'runs', 'threads'];

export const foundByWhatTheyHold: Migration = {
  name: '0192-found-by-what-they-hold',
  up: async (knex) => {
    const forced = (how: string) =>
      WITH_METADATA.map((table) => `alter table ${table} ${how} row level security;`).join('\n');
    await knex.raw(`
      create index objectives_of_run on objectives (run_id);
      comment on table objectives is null;

      -- What has an entry of metadata. No index over metadata serves that (0052-skills). Of an agent also the entries of versions
      -- before the current one.
      create table metadata_entries (
        tenant_id uuid not null references tenants (id),
        entry uuid not null,
        id uuid not null,
        primary key (tenant_id, entry, id)
      );

      -- Of one size, however long the texts are; whoever finds something by it looks at the texts, too.
      create function metadata_entry(kind text, name text, value text) returns uuid language sql immutable as $$
        select md5(kind || ':' || length(name) || ':' || name || value)::uuid
      $$;
      create function metadata_entries_of(kind text, metadata jsonb) returns setof uuid language sql immutable as $$
        select metadata_entry(kind, key, value) from jsonb_each_text(case jsonb_typeof(metadata) when 'object' then metadata else '{}' end)
      $$;

      -- Row level security is forced on the owner, too, and would show it no row.
      ${forced('no force')}
      insert into metadata_entries
        select tenant_id, metadata_entries_of('agent', definition->'metadata'), agent_id from agent_versions where definition->'metadata' is not null
        union select tenant_id, metadata_entries_of('run', metadata), id from runs where metadata is not null
        union select tenant_id, metadata_entries_of('thread', metadata), id from threads where metadata <> '{}';
      ${forced('force')}
      ${tenantTable('metadata_entries')}

      -- Whoever writes them: a process of this build or of the one before.
      create function list_metadata() returns trigger language plpgsql as $$
      begin
        if tg_op = 'UPDATE' then
          delete from metadata_entries where tenant_id = old.tenant_id and id = old.id
            and entry in (select metadata_entries_of(tg_argv[0], old.metadata));
        end if;
        insert into metadata_entries
          select new.tenant_id, metadata_entries_of(tg_argv[0], new.metadata), new.id
          on conflict do nothing;
        return null;
      end $$;
      create function list_metadata_of_version() returns trigger language plpgsql as $$
      begin
        insert into metadata_entries
          select new.tenant_id, metadata_entries_of('agent', new.definition->'metadata'), new.agent_id on conflict do nothing;
        return null;
      end $$;
      create trigger list_metadata after insert on runs for each row
        when (new.metadata is not null) execute function list_metadata('run');
      create trigger list_new_metadata after update of metadata on runs for each row
        when (new.metadata is distinct from old.metadata) execute function list_metadata('run');
      create trigger list_metadata after insert on threads for each row
        when (new.metadata <> '{}') execute function list_metadata('thread');
      create trigger list_new_metadata after update of metadata on threads for each row
        when (new.metadata is distinct from old.metadata) execute function list_metadata('thread');
      create trigger list_metadata after insert on agent_versions for each row
        when (new.definition->'metadata' is not null) execute function list_metadata_of_version();
    `);
  },
};
