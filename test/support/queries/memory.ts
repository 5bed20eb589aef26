/** What agents remember, as tests read and change it. */
import type { Tx } from '../../../db/database.ts';
import { MEMORY_COLUMNS, type MemoryRow } from '../../../db/memory-entries.ts';
import { row, rows, rowsOfAll, type Tenant } from './access.ts';

/** Everything that an agent has ever remembered, oldest first. */
export function memoriesOf(tenant: Tenant, agent: string): Promise<MemoryRow[]> {
  return rows(tenant, `select ${MEMORY_COLUMNS} from memory_entries where agent_id = $1 order by id`, agent);
}

/** What it remembers now. */
export async function activeMemoriesOf(tenant: Tenant, agent: string): Promise<MemoryRow[]> {
  return (await memoriesOf(tenant, agent)).filter(({ status }) => status === 'active');
}

/** The statuses of all that it has ever remembered, oldest first. */
export async function statusesOfMemories(tenant: Tenant, agent: string): Promise<string[]> {
  return (await memoriesOf(tenant, agent)).map(({ status }) => status);
}

export function memoriesOfRun(tenant: Tenant, run: string): Promise<{ id: string }[]> {
  return rows(tenant, 'select id from memory_entries where run_id = $1', run);
}

/** As if an agent had remembered for two hours what it does. */
export async function ageMemories(tenant: Tenant, agent: string): Promise<void> {
  await rows(tenant, `update memory_entries set created_at = now() - interval '2 hours' where agent_id = $1`, agent);
}

/** Words by which entries are found, by how they begin. */
export function termsLike(tenant: Tenant, beginning: string): Promise<object[]> {
  return rows(tenant, 'select 1 from memory_terms where term like $1', `${beginning}%`);
}

/** As if the words of all that an agent remembers had been written by a process that knows only words between spaces. */
export async function indexBySpaces(tenant: Tenant, agent: string): Promise<void> {
  await rows(tenant, 'delete from memory_terms where owner_id = $1', agent);
  await rows(
    tenant,
    `insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len) select tenant_id, agent_id, w.lexeme, id, 1, 5
       from memory_entries cross join lateral unnest(to_tsvector('english', content)) w where agent_id = $1`,
    agent,
  );
}

/** Turns that an agent has still to learn from. */
export function dueExtractions(tenant: Tenant, agent: string): Promise<{ turn_id: string }[]> {
  return rows(tenant, `select turn_id from memory_extractions where agent_id = $1 and status = 'due'`, agent);
}

/** In how many seconds an agent learns from its only turn. */
export async function secondsUntilLearnt(tenant: Tenant, agent: string): Promise<number> {
  const sql = `select extract(epoch from due_at - now())::float8 as seconds from memory_extractions where agent_id = $1`;
  return (await rows<{ seconds: number }>(tenant, sql, agent))[0]?.seconds ?? Number.NaN;
}

/** As if an agent had learnt from its turns a hundred days ago. */
export async function ageExtractions(tenant: Tenant, agent: string): Promise<void> {
  await rows(
    tenant,
    `update memory_extractions set finished_at = finished_at - interval '100 days' where agent_id = $1`,
    agent,
  );
}

/** Runs of an agent of which it is kept what it has learnt from them, oldest first. */
export async function runsLearntFrom(tenant: Tenant, agent: string): Promise<string[]> {
  const sql = 'select run_id from memory_extractions where agent_id = $1 order by turn_id';
  return (await rows<{ run_id: string }>(tenant, sql, agent)).map(({ run_id }) => run_id);
}

/** How much an agent was refused to learn from its only turn, by rule. */
export async function refusedOf(tenant: Tenant, agent: string): Promise<object> {
  const sql = 'select refused from memory_extractions where agent_id = $1';
  return (await row<{ refused: object }>(tenant, sql, agent)).refused;
}

/** Entries that a model has still to hold against the others. */
export function dueChecks(tenant: Tenant, agent: string): Promise<object[]> {
  return rows(tenant, 'select subject_id from memory_checks where owner_id = $1', agent);
}

/** Forgettings of a memory that are looked at again. */
export function forgettingsOf(tenant: Tenant, memory: string): Promise<object[]> {
  return rows(tenant, 'select id from memory_forgettings where memories @> array[$1::uuid]', memory);
}

/** As if all forgettings had been so many minutes ago. */
export async function makeForgettingsDue(tenant: Tenant, { minutesOld = 1 } = {}): Promise<void> {
  const sql = `update memory_forgettings set due_at = now(), created_at = least(created_at, now() - $1::int * interval '1 minute')`;
  await rows(tenant, sql, minutesOld);
}

/** Of the `n`-th of many: so far from [1, 0, …], each a little elsewhere. */
const vectorAway = (away: string): string =>
  `('[' || 1 - ${away}::float8 || ',' || ${away} || ',' || sin(n) / 50 || ',' || cos(n) / 50 || ',' || sin(n * 7) / 50 || ',0,0,0]')::vector`;

/** So many entries with vectors `away` from [1, 0, …], each a little different; those of the thread `short` are procedures. */
export async function addVectors(
  tenant: Tenant,
  agent: string,
  of: { model: string; thread: string; away: number; count: number },
): Promise<void> {
  await rows(
    tenant,
    `insert into memory_entries (id, tenant_id, agent_id, thread_id, memory_type, content, content_hash, origin, root_id, tokens,
        metadata, embedding, embedding_model)
     select i.id, $1, $2, $3, case $3 when 'short' then 'PROCEDURAL' else 'EPISODIC' end, 'x', md5('x'), 'user', i.id, 1,
        jsonb_build_object('user_id', $3::text),
        ${vectorAway('$4')}, $5
       from generate_series(1, $6) n cross join lateral (select gen_random_uuid() as id, n as of) i`,
    tenant.tenantId,
    agent,
    of.thread,
    of.away,
    of.model,
    of.count,
  );
}

/** A space that lets all agents in. */
export async function addSpace(tenant: Tenant & { workspaceId: string }): Promise<string> {
  const sql = `insert into memory_spaces (id, tenant_id, workspace_id, scope) values (gen_random_uuid(), $1, $2, 'team') returning id`;
  return (await row<{ id: string }>(tenant, sql, tenant.tenantId, tenant.workspaceId)).id;
}

/** So many fragments with vectors `away` from [1, 0, …] and the word `crowd` or `own`, which `denied` does not see. */
export async function addFragmentVectors(
  tenant: Tenant,
  space: string,
  of: { model: string; word: string; denied: string[]; away: number; count: number },
): Promise<void> {
  await rows(
    tenant,
    `insert into memory_fragments (id, tenant_id, space_id, content, words, version, visibility, denied_agents, provenance, embedding,
        embedding_model)
     select i.id, $1, $2, jsonb_build_object('type', 'text', 'data', $3::text), $3, 1, 'team', $4::text[], '{}',
        ${vectorAway('$5')}, $6
       from generate_series(1, $7) n cross join lateral (select gen_random_uuid() as id, n as of) i`,
    tenant.tenantId,
    space,
    of.word,
    of.denied,
    of.away,
    of.model,
    of.count,
  );
  await rows(
    tenant,
    `insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
     select tenant_id, space_id, 'common', id, 1, 1 from memory_fragments where space_id = $1 and words = $2`,
    space,
    of.word,
  );
}

/** Fragments with these texts and their words, oldest first, which everybody sees. */
export async function addFragmentTexts(
  tenant: Tenant,
  space: string,
  of: readonly { id: string; text: string }[],
): Promise<void> {
  await rows(
    tenant,
    `with added as (insert into memory_fragments (id, tenant_id, space_id, content, words, version, visibility, provenance)
       select (x->>'id')::uuid, $1, $2, jsonb_build_object('type', 'text', 'data', x->>'text'), x->>'text', 1, 'team', '{}'
         from jsonb_array_elements($3::jsonb) x returning *)
     insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
       select tenant_id, space_id, w.lexeme, id, 1, 5 from added cross join lateral unnest(to_tsvector('english', words)) w`,
    tenant.tenantId,
    space,
    JSON.stringify(of),
  );
}

/** How many entries the index may look at in this transaction. */
export async function scanAtMost(tx: Tx, entries: number): Promise<void> {
  await tx.query(`select set_config('hnsw.max_scan_tuples', $1, true)`, [String(entries)]);
}

/** As if what a run has read of memories had been read half a year ago. */
export async function ageAccesses(tenant: Tenant, run: string): Promise<void> {
  await rows(tenant, `update memory_accesses set accessed_at = now() - interval '200 days' where run_id = $1`, run);
}

/** As if all agents of a tenant had remembered for two hours what they do. */
export async function ageAllMemories(tenant: Tenant): Promise<void> {
  await rows(tenant, `update memory_entries set created_at = now() - interval '2 hours'`);
}

/** As if no process had embedded anything for a day. */
export async function endEmbeddingSettings({ context }: Tenant): Promise<void> {
  await rowsOfAll(context.db, `update embedding_settings set seen_at = now() - interval '1 day'`);
  await rowsOfAll(context.db, `update embedding_lengths set seen_at = now() - interval '1 day'`);
}

/** As if nobody had tried to replace vectors for a day. */
export async function forgetTries(tenant: Tenant): Promise<void> {
  await rows(tenant, `update memory_models set tried_at = now() - interval '1 day'`);
}

/** The models that the vectors of a space's fragments are of. */
export async function modelsOfFragments(tenant: Tenant, space: string): Promise<(string | null)[]> {
  const sql = 'select embedding_model as model from memory_fragments where space_id = $1 order by id';
  return (await rows<{ model: string | null }>(tenant, sql, space)).map(({ model }) => model);
}

/** As if so many hours had gone by for what an agent remembers and what of it is archived. */
export async function passTimeOf(tenant: Tenant, agent: string, hours: number): Promise<void> {
  const earlier = (column: string) => `${column} = ${column} - $2 * interval '1 hour'`;
  await rows(tenant, `update memory_entries set ${earlier('expires_at')} where agent_id = $1`, agent, hours);
  await rows(tenant, `update memory_archive set ${earlier('expires_at')} where agent_id = $1`, agent, hours);
}

/** Makes one of the summaries of an agent of all of them: made from what each was made from. */
export async function joinSummaries(tenant: Tenant, agent: string): Promise<void> {
  await rows(
    tenant,
    `with made as (select min(id::text)::uuid as first, array_agg(made_from[1]) as sources from memory_entries
        where agent_id = $1 and made_from is not null)
     update memory_entries e set made_from = made.sources from made where e.id = made.first`,
    agent,
  );
  await rows(tenant, `delete from memory_entries where agent_id = $1 and cardinality(made_from) = 1`, agent);
}

/** Gives entries these vectors, as of a model of so many dimensions. */
export async function setVectors(tenant: Tenant, of: readonly { id: string; vector: number[] }[]): Promise<void> {
  for (const { id, vector } of of) {
    const sql = `update memory_entries set embedding = $2::vector, embedding_model = 'test/eight' where id = $1`;
    await rows(tenant, sql, id, `[${vector.join(',')}]`);
  }
}

/** Makes so many of an agent's entries ones of the short term. */
export async function makeShortTerm(tenant: Tenant, agent: string, count: number): Promise<void> {
  const some = 'select id from memory_entries where agent_id = $1 order by id limit $2';
  await rows(tenant, `update memory_entries set memory_type = 'SHORT_TERM' where id in (${some})`, agent, count);
}

/** As if so many hours had gone by for the fragments of a space. */
export async function passTimeOfSpace(tenant: Tenant, space: string, hours: number): Promise<void> {
  const sql = `update memory_fragments set expires_at = expires_at - $2 * interval '1 hour' where space_id = $1`;
  await rows(tenant, sql, space, hours);
}

/** As if the time of all fragments of a space was over a moment ago. */
export async function endFragmentsOf(tenant: Tenant, space: string): Promise<void> {
  await rows(tenant, 'update memory_fragments set expires_at = clock_timestamp() where space_id = $1', space);
}

/** As if all refusals of texts had been stored by a process that did not say which model refused. */
export async function forgetRefusers(tenant: Tenant): Promise<void> {
  for (const table of ['memory_entries', 'memory_fragments'])
    await rows(tenant, `update ${table} set embedding_model = 'none' where embedding_model like 'none:%'`);
}
