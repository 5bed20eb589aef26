/** Fragments of spaces have an index of nearest neighbours for each model in use, as entries have. */
import type { Migration } from './migration.ts';

export const nearFragments: Migration = {
  name: '0145-near-fragments',
  up: async (knex) => {
    await knex.raw(`
      create index memory_fragments_near_offline on memory_fragments using hnsw ((embedding::vector(512)) vector_cosine_ops)
        where embedding_model = 'offline';

      drop function ensure_memory_index(text, integer);
      create function ensure_vector_index(owner text, model text, dimensions integer) returns boolean
      language plpgsql security definer set search_path from current set lock_timeout = '2s' as $$
      declare
        name text := owner || '_near_' || substr(md5(model || dimensions), 1, 12);
        kind text := case when dimensions > 2000 then 'halfvec' else 'vector' end;
      begin
        if owner not in ('memory_entries', 'memory_fragments') then raise exception '% has no vectors', owner; end if;
        if dimensions not between 1 and 4000 or (model = 'offline' and dimensions = 512) then return false; end if;
        perform pg_advisory_xact_lock(hashtext('drover:memory-index'));
        perform from pg_indexes where indexname = name;
        if found then return false; end if;
        execute format('create index %I on %I using hnsw ((embedding::%s(%s)) %s) where embedding_model = %L', name, owner, kind,
          dimensions, kind || '_cosine_ops', model)
          || case owner when 'memory_entries' then ' and status in (''active'', ''disputed'')' else '' end;
        return true;
      end $$;
      revoke all on function ensure_vector_index(text, text, integer) from public;
      grant execute on function ensure_vector_index(text, text, integer) to drover_maintenance;
    `);
  },
};
