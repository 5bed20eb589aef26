/** Which embedding models the vectors of agents' memories are of, and who embeds with which: what is to be embedded anew is found by it. */
import type { Migration } from './migration.ts';
import { tenantTable } from './tenant-table.ts';

export const memoryModels: Migration = {
  name: '0048-memory-models',
  up: async (knex) => {
    await knex.raw(`
      -- A row for each model that live entries of an agent may have vectors of; which they have, the entries say.
      create table memory_models (
        agent_id uuid not null,
        model text not null,
        tenant_id uuid not null references tenants (id),
        -- What the agent's definition names; empty where it names none.
        wanted text not null,
        -- When somebody last began to replace these vectors.
        tried_at timestamptz,
        primary key (agent_id, model)
      );
      ${tenantTable('memory_models')}
      -- There are few pairs: reconciliation goes through them, and not through agents.
      create index memory_models_pairs on memory_models (wanted, model, agent_id);
      create policy maintenance_finds_models on memory_models for select to drover_maintenance using (true);
      grant select on memory_models to drover_maintenance;
      insert into memory_models (agent_id, model, tenant_id, wanted)
        select e.agent_id, e.embedding_model, e.tenant_id,
            coalesce(max(v.definition->'memory_config'->'long_term'->>'embedding_model'), '')
          from memory_entries e left join agents a on a.id = e.agent_id
            left join agent_versions v on v.agent_id = a.id and v.version = a.current_version
         where e.status in ('active', 'disputed') and e.embedding_model is not null group by 1, 2, 3;

      -- How processes embed that have done so lately, a row for each way. Nothing of a tenant's.
      create table embedding_settings (
        model text not null,
        has_key boolean not null,
        seen_at timestamptz not null,
        primary key (model, has_key)
      );
      alter table embedding_settings enable row level security;
      alter table embedding_settings force row level security;
      create policy maintenance_embeds on embedding_settings to drover_maintenance using (true) with check (true);
      grant select, insert, update on embedding_settings to drover_maintenance;

      -- By the column that maintenance may read.
      drop index memory_entries_unembedded;
      create index memory_entries_unembedded on memory_entries (agent_id, id)
        where embedding_model is null and status in ('active', 'disputed');
      create index memory_fragments_model on memory_fragments (space_id, embedding_model) where embedding is not null;
    `);
  },
};
