/** The archive of entries removed from agents' memory. */
import type { Tx } from './database.ts';
import { IN_FORCE, indexWords, type MemoryRow } from './memory-entries.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';

export interface ArchiveRow {
  id: string;
  agent_id: string;
  entry: MemoryRow;
  reason: string;
  archived_at: Date;
}

/** A page of an agent's archive, newest first; limited in size, too. */
export async function listArchive(
  tx: Tx,
  page: { agentId: string; before?: string | undefined; limit: number },
): Promise<Page<ArchiveRow>> {
  const columns = 'id, agent_id, entry, reason, archived_at, json_bytes(entry) as bytes';
  const query = selectFrom(columns, 'memory_archive', [
    ['agent_id', '=', page.agentId],
    ['id', '<', page.before],
  ]);
  const { sql, bindings } = query
    .whereRaw(IN_FORCE)
    .orderBy('id', 'desc')
    .limit(page.limit + 1)
    .toSQL()
    .toNative();
  return pageOfSized(await tx.query<ArchiveRow & Sized>(untilFull(sql, 'id desc'), bindings), page.limit);
}

/** Moves entries to the archive; returns how many existed. */
export async function archiveMemories(
  tx: Tx,
  of: { agentId: string; ids: readonly string[]; reason: string },
): Promise<number> {
  await tx.query('delete from memory_terms where entry_id = any($1::uuid[])', [of.ids]);
  const rows = await tx.query(
    `with moved as (delete from memory_entries where agent_id = $1 and id = any($2::uuid[]) returning *)
     insert into memory_archive (id, tenant_id, agent_id, root_id, run_id, entry, reason, expires_at)
       select id, tenant_id, agent_id, root_id, run_id, to_jsonb(moved), $3, expires_at from moved returning id`,
    [of.agentId, of.ids, of.reason],
  );
  return rows.length;
}

/** Restores archived entries unchanged; returns the ids of those found. */
export async function restoreMemories(tx: Tx, of: { agentId: string; ids: readonly string[] }): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `with moved as (delete from memory_archive where agent_id = $1 and id = any($2::uuid[]) returning entry)
     insert into memory_entries select r.* from moved, jsonb_populate_record(null::memory_entries, moved.entry) r returning id`,
    [of.agentId, of.ids],
  );
  const ids = rows.map(({ id }) => id);
  await indexWords(tx, ids);
  return ids;
}
