/** Fragments of shared memory, with their versions, uses and vectors. */
import { refusalBy } from '../core/memory/vector-names.ts';
import { findSpace, type SpaceRow, type Visibility } from './memory-spaces.ts';
import type { Tx } from './database.ts';
import { REFUSED } from './memory-models.ts';
import { pageOfSized, untilFull, type Page, type Sized } from './page-bytes.ts';

export interface FragmentContent {
  type: 'text' | 'structured' | 'embedding';
  data?: unknown;
  embedding?: number[] | undefined;
}

/** Who wrote a version, and from what sources, as far as the writer said. */
export type FragmentProvenance = Record<string, unknown> & { created_by_agent?: string | null | undefined };

export interface FragmentRow {
  id: string;
  space_id: string;
  content: FragmentContent;
  version: number;
  visibility: Visibility;
  allowed_agents: string[];
  denied_agents: string[];
  created_by_agent: string | null;
  provenance: FragmentProvenance;
  requires_resolution: boolean;
  retention_policy: string | null;
  expires_at: Date | null;
  last_accessed: Date | null;
  created_at: Date;
  updated_at: Date;
}

// Writing is not a use. Uses are read from accesses, since otherwise each search would have to update the fragments it finds.
const USES = `from memory_accesses a where a.memory_id = f.id and a.operation not in ('write', 'resolve')`;
/** The size of a fragment's content. */
export const FRAGMENT_BYTES = 'json_bytes(f.content) + json_bytes(f.provenance) as bytes';
export const FRAGMENT_COLUMNS = `f.id, f.space_id, f.content, f.version, f.visibility, f.allowed_agents, f.denied_agents, f.created_by_agent,
  f.provenance, f.requires_resolution, f.retention_policy, f.expires_at, f.created_at, f.updated_at,
  (select a.accessed_at ${USES} order by a.id desc limit 1) as last_accessed`;

/** Takes a fragment out of the search, since its text was merged into another one. */
export async function endFragment(tx: Tx, of: { id: string; mergedInto: string }): Promise<void> {
  await tx.query(
    `update memory_fragments set expires_at = now(), provenance = provenance || jsonb_build_object('merged_into', $2::text) where id = $1`,
    [of.id, of.mergedInto],
  );
}

/** Fragments merged into this one, until they are swept. */
export async function listMergedInto(tx: Tx, id: string): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `select id from memory_fragments where expires_at <= now() and provenance->>'merged_into' = $1`,
    [id],
  );
  return rows.map((row) => row.id);
}

/** Exceptions for expired fragments: merged ones, or any (for the writer, or for deletion). */
const EVEN = { merged: ` or f.provenance ? 'merged_into'`, ended: ' or true' } as const;

/** An unexpired fragment of the workspace, with its space; locked if it is to be changed. */
export async function findFragment(
  tx: Tx,
  of: { id: string; workspaceId: string; lock?: boolean; even?: keyof typeof EVEN },
): Promise<{ fragment: FragmentRow; space: SpaceRow } | undefined> {
  const inForce = `(f.expires_at is null or f.expires_at > now()${of.even ? EVEN[of.even] : ''})`;
  const [fragment] = await tx.query<FragmentRow>(
    `select ${FRAGMENT_COLUMNS} from memory_fragments f where f.id = $1 and ${inForce}${of.lock ? ' for update' : ''}`,
    [of.id],
  );
  const space = fragment && (await findSpace(tx, { id: fragment.space_id, workspaceId: of.workspaceId }));
  return fragment && space && { fragment, space };
}

/** How often a fragment was found or given to a run, as far as recorded; counted up to `limit`. */
export async function countFragmentUses(tx: Tx, of: { id: string; limit: number }): Promise<number> {
  const [row] = await tx.query<{ uses: number }>(
    `select count(*)::int as uses from (select ${USES.replace('f.id', '$1')} limit $2) used`,
    [of.id, of.limit],
  );
  return row?.uses ?? 0;
}

/** Fragments in force, newest first. */
export async function readFragments(tx: Tx, ids: readonly string[]): Promise<FragmentRow[]> {
  return tx.query<FragmentRow>(
    `select ${FRAGMENT_COLUMNS} from memory_fragments f
      where f.id = any($1::uuid[]) and (f.expires_at is null or f.expires_at > now()) order by f.id desc`,
    [ids],
  );
}

/** A version of a fragment; undefined if it is not known. */
export async function findVersion(
  tx: Tx,
  of: { id: string; version: number },
): Promise<{ content: FragmentContent; provenance: FragmentProvenance } | undefined> {
  const [row] = await tx.query<{ content: FragmentContent; provenance: FragmentProvenance }>(
    'select content, provenance from memory_fragment_versions where fragment_id = $1 and version = $2',
    [of.id, of.version],
  );
  return row;
}

export interface FragmentVersion {
  version: number;
  content: FragmentContent;
  provenance: FragmentProvenance;
  created_at: Date;
}

/** A page of a fragment's versions, newest first, below a version if given. */
export async function listFragmentVersions(
  tx: Tx,
  of: { id: string; below: number | undefined; limit: number },
): Promise<Page<FragmentVersion>> {
  const versions = `select version, content, provenance, created_at, json_bytes(content) + json_bytes(provenance) as bytes
    from memory_fragment_versions where fragment_id = $1 and ($2::int is null or version < $2) order by version desc limit $3`;
  const values = [of.id, of.below ?? null, of.limit + 1];
  return pageOfSized(await tx.query<FragmentVersion & Sized>(untilFull(versions, 'version desc'), values), of.limit);
}

interface WrittenFragment extends Omit<FragmentRow, 'last_accessed' | 'created_at' | 'updated_at'> {
  tenant_id: string;
  /** Its searchable text. */
  words: string;
}

/** Writes a fragment or its next version, with its words. */
export async function writeFragment(tx: Tx, row: WrittenFragment): Promise<void> {
  await tx.query(
    `insert into memory_fragments (id, tenant_id, space_id, content, words, version, visibility, allowed_agents, denied_agents,
        created_by_agent, provenance, requires_resolution, retention_policy, expires_at)
     values ($1, $2, $3, $4::jsonb, $5, $6, $7, $8, $9, $10, $11::jsonb, $12, $13, $14)
     on conflict (id) do update set content = excluded.content, words = excluded.words, version = excluded.version,
       visibility = excluded.visibility, allowed_agents = excluded.allowed_agents, denied_agents = excluded.denied_agents,
       provenance = excluded.provenance, requires_resolution = excluded.requires_resolution,
       retention_policy = excluded.retention_policy, expires_at = excluded.expires_at, embedding = null, embedding_model = null,
       updated_at = now()`,
    [
      row.id,
      row.tenant_id,
      row.space_id,
      JSON.stringify(row.content),
      row.words,
      row.version,
      row.visibility,
      row.allowed_agents,
      row.denied_agents,
      row.created_by_agent,
      JSON.stringify(row.provenance),
      row.requires_resolution,
      row.retention_policy,
      row.expires_at,
    ],
  );
  await tx.query(
    `insert into memory_fragment_versions (tenant_id, fragment_id, version, content, provenance) values ($1, $2, $3, $4::jsonb, $5::jsonb)`,
    [row.tenant_id, row.id, row.version, JSON.stringify(row.content), JSON.stringify(row.provenance)],
  );
  await tx.query('delete from memory_terms where entry_id = $1', [row.id]);
  await tx.query(
    `insert into memory_terms (tenant_id, owner_id, term, entry_id, tf, len)
     select $1, $2, left(w.lexeme, 100), $3, least(sum(w.tf), 32767), least(max(w.len), 32767)
       from (select lexeme, cardinality(positions) as tf, sum(cardinality(positions)) over () as len
         from unnest(to_tsvector('english', split_words(left($4, 200000))))) w group by left(w.lexeme, 100)`,
    [row.tenant_id, row.space_id, row.id, row.words],
  );
}

/**
 * Deletes fragments with their versions and words; with `ifExpired`, only those that have expired. Returns the ids of those that
 * existed. The rows are deleted first, since a concurrent write locks its row: the words deleted are then those of that write.
 */
export async function deleteFragments(tx: Tx, of: { ids: readonly string[]; ifExpired?: boolean }): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(
    `delete from memory_fragments where id = any($1::uuid[]) and (not $2::boolean or expires_at < now()) returning id`,
    [of.ids, of.ifExpired ?? false],
  );
  const ids = rows.map(({ id }) => id);
  if (ids.length > 0) await tx.query('delete from memory_terms where entry_id = any($1::uuid[])', [ids]);
  return ids;
}

export interface FragmentSearch {
  spaceIds: readonly string[];
  /** The agent that asks; if null, private fragments are excluded. */
  agentId: string | null;
  limit: number;
}

/** Condition on `f`: visible to the agent `$2`. */
export const VISIBLE = `(f.expires_at is null or f.expires_at > now()) and ($2::text is null or $2 <> all(f.denied_agents))
  and (f.created_by_agent = $2 or (f.visibility <> 'private' and (f.allowed_agents = '{}' or $2 = any(f.allowed_agents)))
    or (f.visibility = 'private' and $2 = any(f.allowed_agents)))`;

/** `from` for the newest visible fragments `f` of the spaces `$1`, `$3` of each: only of one space does an index have the order. */
export const NEWEST_OF_EACH = `unnest($1::uuid[]) as space (id) cross join lateral (select * from memory_fragments f
  where f.space_id = space.id and ${VISIBLE} order by f.created_at desc, f.id desc limit $3) f`;

/** The newest fragments, as many as fit on a page. */
export async function listFragments(tx: Tx, { spaceIds, agentId, limit }: FragmentSearch): Promise<FragmentRow[]> {
  const newest = `select ${FRAGMENT_COLUMNS}, ${FRAGMENT_BYTES} from ${NEWEST_OF_EACH}
    order by f.created_at desc, f.id desc limit $3`;
  const found = await tx.query<FragmentRow & Sized>(untilFull(newest, 'created_at desc, id desc'), [
    spaceIds,
    agentId,
    limit,
  ]);
  return pageOfSized(found, limit).rows;
}

/** Records who read or wrote which fragments, or the run that hands them over. */
export async function noteAccesses(
  tx: Tx,
  of: {
    tenantId: string;
    agentId: string | null;
    runId?: string | undefined;
    operation: 'write' | 'search' | 'resolve' | 'turn';
    fragments: readonly { access: string; id: string; score?: number }[];
  },
): Promise<void> {
  await tx.query(
    `insert into memory_accesses (id, tenant_id, memory_id, agent_id, operation, score, run_id)
     select r.access, $1, r.id, case when $2 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then $2::uuid end, $3, r.score, $5
       from jsonb_to_recordset($4::jsonb) as r (access uuid, id uuid, score float8)`,
    [of.tenantId, of.agentId, of.operation, JSON.stringify(of.fragments), of.runId ?? null],
  );
}

export interface UnembeddedFragment {
  id: string;
  space_id: string;
  content: string;
  /** The name of its vector, or of its refusal. */
  model: string | null;
}

/**
 * Fragments of spaces without a vector, then those with one of another `name`, then those that another `model` refuses; none of
 * the models that are `kept`. With `newestFirst`, the newest of each of these.
 */
export async function listUnembeddedFragments(
  tx: Tx,
  of: {
    spaceIds: readonly string[];
    model: string;
    name?: string;
    kept: readonly string[];
    newestFirst?: boolean;
    limit: number;
  },
): Promise<UnembeddedFragment[]> {
  const { spaceIds, model, name = model, kept, newestFirst = false, limit } = of;
  const order = newestFirst ? 'order by id desc' : '';
  return tx.query(
    `(select id, space_id, words as content, embedding_model as model from memory_fragments
       where space_id = any($1::uuid[]) and embedding_model is null order by id limit $2)
     union all
     (select id, space_id, words, embedding_model from memory_fragments
       where space_id = any($1::uuid[]) and embedding is not null and (embedding_model < $3 or embedding_model > $3)
         and split_part(embedding_model, '#', 1) <> all($4::text[]) ${order} limit $2)
     union all
     (select id, space_id, words, embedding_model from memory_fragments
       where space_id = any($1::uuid[]) and ${REFUSED} and (embedding_model < $5 or embedding_model > $5)
         and substr(embedding_model, $6) <> all($4::text[]) ${order} limit $2)
     limit $2`,
    [spaceIds, limit, name, kept, refusalBy(model), refusalBy('').length + 1],
  );
}

/** Stores vectors of fragments, in pgvector's notation, under a name, or a refusal by the model. */
export async function storeFragmentEmbeddings(
  tx: Tx,
  of: { model: string; name: string; rows: readonly { id: string; content: string; vector: string | null }[] },
): Promise<void> {
  await tx.query(
    `update memory_fragments f set embedding = r.vector::vector, embedding_model = case when r.vector is null then $3 else $1 end
       from jsonb_to_recordset($2::jsonb) as r (id uuid, content text, vector text) where f.id = r.id and f.words = r.content`,
    [of.name, JSON.stringify(of.rows), refusalBy(of.model)],
  );
}

/** Of the named fragments in these spaces, those that this agent may see; kept from deletion until the transaction ends. */
export async function readSharedFragments(
  tx: Tx,
  of: { spaceIds: readonly string[]; agentId: string; ids: readonly string[] },
): Promise<SharedFragment[]> {
  return tx.query(
    `select f.id, f.content->'data' as content, f.created_at,
       (select count(*)::int from (select from memory_accesses a where a.memory_id = f.id limit 100) used) as uses
     from memory_fragments f where f.id = any($3::uuid[]) and f.space_id = any($1::uuid[]) and ${VISIBLE} for key share of f`,
    [of.spaceIds, of.agentId, of.ids],
  );
}

export interface SharedFragment {
  id: string;
  content: unknown;
  created_at: Date;
  uses: number;
}
