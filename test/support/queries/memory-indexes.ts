/** The users of entries and the indexes of memories, as tests find them and take them away. */
import type { Database } from '../../../db/database.ts';
import { listMissingIndexes, listWithoutUser } from '../../../db/memory-indexes.ts';
import { rows, type Tenant } from './access.ts';

/** So many entries of as many users as there are of each ten, named `user-0` and so on, each with the words of `content` and its number. */
export async function addEntriesOfUsers(
  tenant: Tenant,
  agent: string,
  of: { count: number; users: number; content: string },
): Promise<void> {
  await rows(
    tenant,
    `insert into memory_entries (id, tenant_id, agent_id, memory_type, content, content_hash, origin, root_id, tokens, metadata,
        embedding, embedding_model)
     select i.id, $1, $2, 'SEMANTIC', $3 || ' ' || n, md5(n::text), 'user', i.id, 1, jsonb_build_object('user_id', 'user-' || n % $4),
        ('[1,' || sin(n) || ',' || cos(n) || ']')::vector, 'test/three'
       from generate_series(1, $5) n cross join lateral (select gen_random_uuid() as id, n as of) i`,
    tenant.tenantId,
    agent,
    of.content,
    of.users,
    of.count,
  );
  await rows(
    tenant,
    `insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
     select tenant_id, agent_id, w.lexeme, id, 1, 5 from memory_entries cross join lateral unnest(to_tsvector('english', content)) w
      where agent_id = $1`,
    agent,
  );
}

/** As before the migration that names the users of entries. */
export async function undoUsersOfMemories(db: Pick<Database, 'asOwner'>): Promise<void> {
  await db.asOwner((client) =>
    client.query(`drop trigger name_user_of_memory on memory_entries;
      drop function name_user_of_memory();
      alter table memory_entries drop column user_id;
      drop trigger count_added on memory_fragments;
      drop trigger count_removed on memory_fragments;
      drop function count_fragments();
      alter table memory_spaces drop column fragment_count;
      drop index memory_entries_refused, memory_fragments_refused;
      drop table embedding_lengths;
      delete from schema_migrations where name = '0191-memories-of-users'`),
  );
}

/** How many entries do not say whose they are yet, and which indexes are missing. */
export async function stateOfUsers(db: Database): Promise<{ unnamed: number; missing: string[] }> {
  const unnamed = await listWithoutUser(db, 1000);
  return { unnamed: unnamed.length, missing: await db.asMaintenance(listMissingIndexes) };
}

/** As if a process that made the index of users had been killed. */
export async function breakIndexOfUsers(db: Pick<Database, 'asOwner'>): Promise<void> {
  await db.asOwner((client) =>
    client.query(`create index memory_entries_of_user on memory_entries (agent_id, user_id, status, importance desc, id);
      update pg_index set indisvalid = false where indexrelid = 'memory_entries_of_user'::regclass`),
  );
}

/** The fragment cannot be deleted, as if something in it could not be read. */
export async function keepFromDeletion(db: Pick<Database, 'asOwner'>, fragment: string): Promise<void> {
  await db.asOwner((client) =>
    client.query(`create function keep_it() returns trigger language plpgsql as $$ begin raise exception 'it stays'; end $$;
      create trigger keep_it before delete on memory_fragments for each row when (old.id = '${fragment}') execute function keep_it()`),
  );
}

/** As if a space had been made, and filled, before its fragments were counted. */
export async function forgetCounts(tenant: Tenant, space: string): Promise<void> {
  await rows(tenant, 'update memory_spaces set fragment_count = null where id = $1', space);
}
