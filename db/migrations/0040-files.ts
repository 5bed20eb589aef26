/** Files: what they are called and whose they are, and apart from that their contents, each stored once a tenant. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const files: Migration = {
  name: '0040-files',
  up: async (knex) => {
    await knex.raw(`
      create domain file_content_state as text check (value in ('writing', 'stored', 'garbage'));
      create domain file_origin as text check (value in ('user', 'tool', 'provider'));
      create domain trust as text check (value in ('trusted', 'untrusted'));

      -- An object of the file store, named before its first byte is written: whatever becomes of the writer, maintenance
      -- finds what nothing refers to. A tenant's stored contents are told by their digest.
      create table file_contents (
        id uuid primary key,
        tenant_id uuid not null,
        state file_content_state not null,
        sha256 text,
        size bigint,
        changed_at timestamptz not null default now()
      );
      create unique index file_contents_stored on file_contents (tenant_id, sha256) where state = 'stored';
      create index file_contents_to_sweep on file_contents (changed_at) where state <> 'stored';
      ${tenantTable('file_contents')}
      create policy maintenance_finds_garbage on file_contents to drover_maintenance using (state <> 'stored');
      grant select on file_contents to drover_maintenance;

      -- Bytes of a tenant's stored contents. Whoever adds or removes one holds this row.
      create table file_usage (
        tenant_id uuid primary key,
        bytes bigint not null default 0
      );
      ${tenantTable('file_usage')}

      create table files (
        id uuid primary key,
        tenant_id uuid not null,
        workspace_id uuid not null,
        thread_id uuid,
        -- The run that has made it.
        run_id uuid,
        content_id uuid not null references file_contents (id),
        sha256 text not null,
        size bigint not null,
        filename text not null,
        mime_type text not null,
        origin file_origin not null,
        trust trust not null,
        created_at timestamptz not null default now()
      );
      create index files_page on files (tenant_id, workspace_id, id desc);
      create index files_by_content on files (content_id);
      create index files_by_thread on files (thread_id, id desc) where thread_id is not null;
      create index files_by_run on files (run_id, id desc) where run_id is not null;
      ${tenantTable('files')}

      -- Runs that a file has come into: it is erased with the last of them.
      create table file_uses (
        tenant_id uuid not null,
        run_id uuid not null,
        file_id uuid not null references files (id) on delete cascade,
        primary key (run_id, file_id)
      );
      create index file_uses_by_file on file_uses (file_id);
      ${tenantTable('file_uses')}
    `);
  },
};
