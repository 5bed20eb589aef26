/** Finds work on memories outside of runs. */
import { LIMITS } from '../core/limits.ts';
import type { Database, Tx } from './database.ts';
import type { LostFilter } from './maintenance.ts';
import { LIVE } from './memory-entries.ts';
import { lockToForget } from './memory-lock.ts';

export type LostMemoryWork = {
  /** Id of the agent, space, turn, or subject of the check. */
  id: string;
  tenant_id: string;
} & (
  | { work: 'embed' | 'extract'; agent_id: string }
  | { work: 'embed_fragments'; agent_id: null }
  | { work: 'check'; agent_id: null }
);

/**
 * Memory work that should have a job: missing embeddings (if this installation makes any), embeddings of a replaced model,
 * overdue extractions, and due contradiction checks.
 */
export async function listLostMemoryWork(
  db: Database,
  { quietMs, tenantId, after, limit, embeds, replaced = [] }: LostFilter,
): Promise<LostMemoryWork[]> {
  return db.asMaintenance((tx) =>
    tx.query<LostMemoryWork>(
      `select * from (
         select distinct agent_id as id, tenant_id, agent_id, 'embed' as work from memory_entries
          where $5 and embedding_model is null and ${LIVE} and agent_id > $1 and created_at < now() - $2 * interval '1 ms'
         union
         select m.agent_id, m.tenant_id, m.agent_id, 'embed' from jsonb_to_recordset($6::jsonb) as r (wanted text, model text)
           join memory_models m using (wanted, model)
          where m.agent_id > $1 and (m.tried_at is null or m.tried_at < now() - $7 * interval '1 ms')
         union all
         select distinct space_id, tenant_id, null::uuid, 'embed_fragments' from memory_fragments
          where $5 and embedding_model is null and space_id > $1 and updated_at < now() - $2 * interval '1 ms'
         union all
         select turn_id, tenant_id, agent_id, 'extract' from memory_extractions
          where status = 'due' and turn_id > $1 and due_at < now() - $2 * interval '1 ms'
         union all
         select subject_id, tenant_id, null, 'check' from memory_checks
          where subject_id > $1 and due_at < now() - $2 * interval '1 ms') lost
        where $3::uuid is null or tenant_id = $3 order by id limit $4`,
      [after, quietMs, tenantId ?? null, limit, embeds, JSON.stringify(replaced), LIMITS.replacedAgainMs],
    ),
  );
}

export interface Expired {
  tenant_id: string;
  id: string;
  kind: 'fragment' | 'entry' | 'archived';
}

/** Expired fragments, entries and archived entries. */
export async function listExpired(db: Database, limit: number): Promise<Expired[]> {
  return db.asMaintenance((tx) =>
    tx.query<Expired>(
      `(select tenant_id, id, 'fragment' as kind from memory_fragments where expires_at < now() limit $1)
       union all (select tenant_id, id, 'entry' from memory_entries where expires_at < now() limit $1)
       union all (select tenant_id, id, 'archived' from memory_archive where expires_at < now() limit $1)`,
      [limit],
    ),
  );
}

/** The agent of an entry or archived entry that is still expired, locked; `isCurrent`: nothing has replaced it. */
export async function lockExpired(
  tx: Tx,
  { id, kind }: { id: string; kind: 'entry' | 'archived' },
): Promise<{ agentId: string; isCurrent: boolean } | undefined> {
  const [table, isCurrent] =
    kind === 'entry' ? ['memory_entries', `status <> 'superseded'`] : ['memory_archive', 'false'];
  const [of] = await tx.query<{ agent_id: string }>(`select agent_id from ${table} where id = $1`, [id]);
  if (!of) return undefined;
  await lockToForget(tx, of.agent_id);
  const [row] = await tx.query<{ agentId: string; isCurrent: boolean }>(
    `select agent_id as "agentId", ${isCurrent} as "isCurrent" from ${table} where id = $1 and expires_at < now() for update`,
    [id],
  );
  return row;
}

/**
 * Agents with short-term entries older than `olderThanHours`: up to `ofTenant` of each tenant, in an order that depends on
 * `tick`; each tenant's first come before any second ones.
 */
export async function listConsolidationDue(
  db: Database,
  of: { olderThanHours: number; ofTenant: number; limit: number; tick: string },
): Promise<{ tenant_id: string; agent_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query(
      `select tenant_id, agent_id from (
          select tenant_id, agent_id, row_number() over (partition by tenant_id order by md5(agent_id::text || $4)) as place from (
            select distinct tenant_id, agent_id from memory_entries
             where memory_type = 'SHORT_TERM' and ${LIVE} and created_at < now() - $1 * interval '1 hour') due) placed
        where place <= $2 order by place, agent_id limit $3`,
      [of.olderThanHours, of.ofTenant, of.limit, of.tick],
    ),
  );
}
