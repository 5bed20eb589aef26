/** Skills of agents, and those that work has asked for, with vectors of their names. Rows are locked in the order of names. */
import type { Database, Tx } from './database.ts';

/** Adds skills that are new. The others are locked (though not written), so that none is forgotten until the transaction ends. */
export async function addSkills(tx: Tx, tenantId: string, names: readonly string[]): Promise<void> {
  if (names.length === 0) return;
  await tx.query(
    `insert into skills (tenant_id, name) select $1, name from unnest($2::text[]) name order by name
       on conflict (tenant_id, name) do update set name = excluded.name where false`,
    [tenantId, [...new Set(names)]],
  );
}

/**
 * Forgets the skills that no agent has: they were only asked for, and their names are part of that work. What is under way and
 * still asks for one looks it up anew. An agent that gets one holds its row: the agents are looked at once that has ended, by a
 * statement of its own.
 */
export async function forgetAskedSkills(tx: Tx): Promise<void> {
  const isAskedOnly = 'not exists (select from agent_skills a where a.name = s.name)';
  const asked = await tx.query<{ name: string }>(
    `select name from skills s where ${isAskedOnly} order by name for update`,
  );
  if (asked.length === 0) return;
  const names = asked.map(({ name }) => name);
  await tx.query(`delete from skills s where name = any($1::text[]) and ${isAskedOnly}`, [names]);
}

/** Replaces an agent's skills. */
export async function setAgentSkills(
  tx: Tx,
  { tenantId, agentId, names }: { tenantId: string; agentId: string; names: readonly string[] },
): Promise<void> {
  await tx.query('delete from agent_skills where agent_id = $1', [agentId]);
  if (names.length === 0) return;
  await addSkills(tx, tenantId, names);
  await tx.query(
    'insert into agent_skills (tenant_id, agent_id, name) select $1, $2, name from unnest($3::text[]) name',
    [tenantId, agentId, [...new Set(names)]],
  );
}

/** Of these names, those without a vector of this model, except those tried in the last five minutes. */
export async function listUntriedSkills(
  tx: Tx,
  { names, model }: { names: readonly string[]; model: string | undefined },
): Promise<string[]> {
  const rows = await tx.query<{ name: string }>(
    `select name from unnest($1::text[]) as asked (name)
     where not exists (select from skills s where s.name = asked.name
       and (s.embedding is not null or $2::text is null and s.tried_at is not null or s.tried_at > now() - interval '5 minutes')
       and ($2::text is null or s.embedding_model is null or s.embedding_model = $2))`,
    [names, model ?? null],
  );
  return rows.map(({ name }) => name);
}

/** Some skills without a vector of this model. */
export async function listUnembeddedSkills(
  tx: Tx,
  { model, limit }: { model: string; limit: number },
): Promise<string[]> {
  const rows = await tx.query<{ name: string }>(
    'select name from skills where tried_at is null or embedding_model <> $1 order by name limit $2',
    [model, limit],
  );
  return rows.map(({ name }) => name);
}

/** Stores vectors in pgvector's notation; null if a skill has none. */
export async function storeSkillEmbeddings(
  tx: Tx,
  { model, rows }: { model: string | null; rows: readonly { name: string; vector: string | null }[] },
): Promise<void> {
  await tx.query(
    `with given as (select name, vector from jsonb_to_recordset($2::jsonb) as r (name text, vector text)),
       held as materialized (select name from skills where name in (select name from given) order by name for no key update)
     update skills s set embedding = r.vector::vector, embedding_model = case when r.vector is not null then $1 end, tried_at = now()
     from held join given r using (name) where s.name = held.name`,
    [model, JSON.stringify(rows)],
  );
}

const MOST_SIMILAR = 20;

/** Skills similar to this one, by vectors of the same model; nearest first. */
export async function listSimilarSkills(
  tx: Tx,
  { name, model, least }: { name: string; model: string; least: number },
): Promise<{ name: string; similarity: number }[]> {
  const [asked] = await tx.query<{ vector: string | null }>(
    'select embedding::text as vector from skills where name = $1 and embedding_model = $2',
    [name, model],
  );
  if (!asked?.vector) return [];
  await tx.query(`select set_config('hnsw.iterative_scan', 'relaxed_order', true)`);
  // A partial index is only used if its condition is a literal in the statement.
  const near =
    model === 'offline'
      ? `select name, 1 - (embedding::vector(512) <=> $1::vector(512)) as similarity from skills
         where embedding_model = 'offline' order by embedding::vector(512) <=> $1::vector(512) limit ${MOST_SIMILAR}`
      : `select name, 1 - (embedding <=> $1::vector) as similarity from skills
         where embedding_model = $3 order by embedding <=> $1::vector limit ${MOST_SIMILAR}`;
  const values = model === 'offline' ? [asked.vector, least] : [asked.vector, least, model];
  return tx.query(
    `select name, similarity::float8 from (${near}) near where similarity > $2 order by similarity desc`,
    values,
  );
}

/** Tenants with skills that have no vector yet. */
export async function listTenantsToEmbed(db: Database, limit: number): Promise<{ tenant_id: string }[]> {
  return db.asMaintenance((tx) =>
    tx.query('select distinct tenant_id from skills where tried_at is null order by tenant_id limit $1', [limit]),
  );
}
