/** What agents remember: entries with their provenance, the words that recall finds them by, and what was taken from among them. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const memory: Migration = {
  name: '0045-memory',
  up: async (knex) => {
    await knex.raw(`
      create table memory_entries (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        agent_id uuid not null,
        -- A conversation: a thread of Drover's, or one of the client's own.
        thread_id text,
        memory_type text not null check (memory_type in ('SHORT_TERM', 'EPISODIC', 'SEMANTIC', 'PROCEDURAL')),
        content text not null,
        content_hash text not null,
        summary text,
        status text not null default 'active' check (status in ('active', 'superseded', 'disputed', 'archived')),
        origin text not null check (origin in ('user', 'agent', 'tool', 'web', 'memory')),
        -- The run, and the event in its log, that it comes from; the key of the client that wrote it.
        run_id uuid,
        turn_id uuid,
        seq integer,
        key_id uuid,
        -- A fact is never overwritten: a new entry takes the place of the old one, and all versions have one root.
        root_id uuid not null,
        version integer not null default 1,
        supersedes uuid,
        superseded_by uuid,
        reason text,
        -- Entries that this one was made from: a summary goes when they go.
        made_from uuid[],
        importance double precision not null default 0.5,
        relevance_score double precision not null default 0.5,
        metadata jsonb not null default '{}',
        tokens integer not null,
        is_profile boolean not null default false,
        access_count integer not null default 0,
        last_accessed timestamptz,
        valid_from timestamptz,
        valid_to timestamptz,
        expires_at timestamptz,
        embedding vector,
        embedding_model text,
        created_at timestamptz not null default now(),
        updated_at timestamptz not null default now()
      );
      ${tenantTable('memory_entries')}
      create index memory_entries_top on memory_entries (agent_id, memory_type, importance desc, id);
      create index memory_entries_live on memory_entries (agent_id, id) where status in ('active', 'disputed');
      create index memory_entries_thread on memory_entries (agent_id, thread_id, id);
      create index memory_entries_root on memory_entries (root_id);
      create index memory_entries_run on memory_entries (run_id) where run_id is not null;
      create index memory_entries_hash on memory_entries (tenant_id, content_hash);
      create index memory_entries_profile on memory_entries (agent_id) where is_profile and status in ('active', 'disputed');
      create index memory_entries_expiry on memory_entries (expires_at) where expires_at is not null;
      create index memory_entries_unembedded on memory_entries (agent_id, id)
        where embedding is null and status in ('active', 'disputed');

      create index memory_entries_model on memory_entries (agent_id, embedding_model)
        where status in ('active', 'disputed') and embedding is not null;

      -- The text index. Its own table of plain words: row level security lets no operator of text search use an index,
      -- and BM25 needs counts that tsvector has not. Of live entries alone.
      create table memory_terms (
        tenant_id uuid not null,
        -- The agent, or the space.
        owner_id uuid not null,
        term text not null,
        entry_id uuid not null,
        tf smallint not null,
        -- Words of the whole entry.
        len smallint not null,
        primary key (owner_id, term, entry_id)
      );
      ${tenantTable('memory_terms')}
      create index memory_terms_entry on memory_terms (entry_id);

      -- What was taken from among the entries, and may be put back.
      create table memory_archive (
        id uuid primary key,
        tenant_id uuid not null references tenants (id),
        agent_id uuid not null,
        root_id uuid not null,
        run_id uuid,
        entry jsonb not null,
        reason text not null,
        archived_at timestamptz not null default now()
      );
      ${tenantTable('memory_archive')}
      create index memory_archive_page on memory_archive (agent_id, id);

      -- Nearest neighbours, for the model that comes with Drover; others get theirs when they are first used.
      create index memory_entries_near_offline on memory_entries
        using hnsw ((embedding::vector(512)) vector_cosine_ops)
        where embedding_model = 'offline' and status in ('active', 'disputed');

      -- Makes the index of another model; answers whether it was missing. Above 2000 dimensions as halfvec.
      create function ensure_memory_index(model text, dimensions integer) returns boolean
      language plpgsql security definer set search_path from current set lock_timeout = '2s' as $$
      declare
        name text := 'memory_entries_near_' || substr(md5(model || dimensions), 1, 12);
        kind text := case when dimensions > 2000 then 'halfvec' else 'vector' end;
      begin
        if dimensions not between 1 and 4000 or (model = 'offline' and dimensions = 512) then return false; end if;
        perform pg_advisory_xact_lock(hashtext('drover:memory-index'));
        perform from pg_indexes where indexname = name;
        if found then return false; end if;
        execute format('create index %I on memory_entries using hnsw ((embedding::%s(%s)) %s) where embedding_model = %L and status in (''active'', ''disputed'')',
          name, kind, dimensions, kind || '_cosine_ops', model);
        return true;
      end $$;
      revoke all on function ensure_memory_index(text, integer) from public;
      grant execute on function ensure_memory_index(text, integer) to drover_maintenance;

      create policy maintenance_finds_unembedded on memory_entries for select to drover_maintenance using (true);
      -- Whose they are, and nothing of what they say.
      grant select (tenant_id, agent_id, status, embedding_model, created_at) on memory_entries to drover_maintenance;
    `);
  },
};
