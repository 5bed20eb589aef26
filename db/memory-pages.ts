/** Pages of agents' entries and of a fact's versions, limited in size, too. */
import type { MemoryOrigin, MemoryStatus, MemoryType } from '../core/memory/entry.ts';
import type { Tx } from './database.ts';
import { IN_FORCE, MEMORY_COLUMNS, type MemoryRow } from './memory-entries.ts';
import { userOf } from './memory-indexes.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';
import { selectFrom } from './query-builder.ts';

const SIZED = `${MEMORY_COLUMNS}, octet_length(content) + coalesce(octet_length(summary), 0) + json_bytes(metadata) as bytes`;

/** Versions of a fact that have not expired, newest first, below a version if given. */
export async function listVersions(
  tx: Tx,
  of: { agentId: string; rootId: string; below?: number | undefined; limit: number },
): Promise<Page<MemoryRow>> {
  const versions = `select ${SIZED} from memory_entries where root_id = $2 and agent_id = $1 and ${IN_FORCE}
    and ($3::int is null or version < $3) order by version desc, id desc limit $4`;
  const values = [of.agentId, of.rootId, of.below ?? null, of.limit + 1];
  return pageOfSized(await tx.query<MemoryRow & Sized>(untilFull(versions, 'version desc, id desc'), values), of.limit);
}

/** Position in a list of entries by importance. */
interface MemoryPosition {
  importance: number;
  id: string;
}

/** A page of an agent's entries, most important first. */
export async function listMemories(
  tx: Tx,
  page: {
    agentId: string;
    memoryType?: MemoryType | undefined;
    status: MemoryStatus;
    threadId?: string | undefined;
    origin?: MemoryOrigin | undefined;
    runId?: string | undefined;
    subject?: string | undefined;
    userId?: string | undefined;
    createdAfter?: Date | undefined;
    createdBefore?: Date | undefined;
    after?: MemoryPosition | undefined;
    limit: number;
  },
): Promise<Page<MemoryRow>> {
  const query = selectFrom(SIZED, 'memory_entries', [
    ['agent_id', '=', page.agentId],
    ['memory_type', '=', page.memoryType],
    ['status', '=', page.status],
    ['thread_id', '=', page.threadId],
    ['origin', '=', page.origin],
    ['run_id', '=', page.runId],
    ['created_at', '>', page.createdAfter],
    ['created_at', '<', page.createdBefore],
  ]);
  const { after, subject, userId } = page;
  void query.whereRaw(IN_FORCE);
  if (subject !== undefined) void query.whereRaw(`metadata->>'subject' = ?`, [subject]);
  if (userId !== undefined) void query.whereRaw(`${await userOf(tx)} = ?`, [userId]);
  // The first condition is for the index, in which the page begins there.
  if (after)
    void query.whereRaw('importance <= ? and (importance < ? or id > ?)', [
      after.importance,
      after.importance,
      after.id,
    ]);
  const { sql, bindings } = query
    .orderBy('importance', 'desc')
    .orderBy('id')
    .limit(page.limit + 1)
    .toSQL()
    .toNative();
  return pageOfSized(await tx.query<MemoryRow & Sized>(untilFull(sql, 'importance desc, id'), bindings), page.limit);
}
