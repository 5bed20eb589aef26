/** Lists of tools by the permissions that they need, and of agents by their status, read what they show. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const listsByWhatTheyHave: Migration = {
  name: '0182-lists-by-what-they-have',
  up: async (knex) => {
    await knex.raw(`
      -- Which versions of tools need a permission. No index over definitions serves that (0052-skills).
      create table tool_permissions (
        tenant_id uuid not null references tenants (id),
        name text not null,
        tool_id uuid not null references tools (id),
        version text not null,
        primary key (tenant_id, name, tool_id, version)
      );
      comment on table tool_permissions is 'No content of runs: what a tenant has set up, not what was said in a run';

      create function permissions_in(definition jsonb) returns setof text language sql immutable as $$
        select distinct p->>'name' from jsonb_array_elements(
          case jsonb_typeof(definition->'permissions') when 'array' then definition->'permissions' else '[]' end) p
          where p->>'name' is not null
      $$;

      -- Row level security is forced on the owner, too, and would show it no row.
      alter table tool_versions no force row level security;
      insert into tool_permissions (tenant_id, name, tool_id, version)
        select v.tenant_id, needed, v.tool_id, v.version from tool_versions v, permissions_in(v.definition) as needed;
      alter table tool_versions force row level security;
      ${tenantTable('tool_permissions', 'select, insert')}

      -- Whoever publishes a version: a process of this build or of the one before.
      create function list_permissions() returns trigger language plpgsql as $$
      begin
        insert into tool_permissions (tenant_id, name, tool_id, version)
          select new.tenant_id, needed, new.tool_id, new.version from permissions_in(new.definition) as needed;
        return null;
      end $$;
      create trigger list_permissions after insert on tool_versions for each row execute function list_permissions();

      create index agents_of_status on agents (tenant_id, status, id);
      drop index agents_by_status;
    `);
  },
};
