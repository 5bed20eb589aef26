/** What agents can do, by name, with a vector of each name: who asks for a skill by another word finds it all the same. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const skills: Migration = {
  name: '0052-skills',
  up: async (knex) => {
    await knex.raw(`
      create table skills (
        tenant_id uuid not null references tenants (id),
        name text not null,
        embedding vector,
        embedding_model text,
        -- When it was looked at last: one without a vector has got none then.
        tried_at timestamptz,
        primary key (tenant_id, name)
      );
      ${tenantTable('skills')}
      create index skills_unembedded on skills (tenant_id) where tried_at is null;
      create index skills_near on skills using hnsw ((embedding::vector(512)) vector_cosine_ops) where embedding_model = 'offline';
      create policy maintenance_embed_skills on skills for select to drover_maintenance using (true);
      grant select (tenant_id, tried_at) on skills to drover_maintenance;

      -- Which agents have a skill, by their current versions. No GIN index over definitions serves that: an operator that might
      -- tell of rows (jsonb's containment) is tried after row level security, and so never by an index.
      create table agent_skills (
        tenant_id uuid not null references tenants (id),
        agent_id uuid not null references agents (id),
        name text not null,
        primary key (tenant_id, name, agent_id)
      );
      ${tenantTable('agent_skills')}
      create index agent_skills_by_agent on agent_skills (agent_id);
      drop index agent_versions_by_capability;

      insert into agent_skills (tenant_id, agent_id, name)
        select distinct a.tenant_id, a.id, c->>'skill_name' from agents a join agent_versions v on v.agent_id = a.id and v.version = a.current_version
          cross join lateral jsonb_array_elements(case jsonb_typeof(v.definition->'capabilities') when 'array' then v.definition->'capabilities' else '[]' end) c
          where c->>'skill_name' is not null;
      insert into skills (tenant_id, name) select distinct tenant_id, name from agent_skills;
    `);
  },
};
