import type { RateSettings } from '../core/rate-limits.ts';
import type { Scope } from '../core/scopes.ts';
import type { Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export interface ApiKeyRow {
  id: string;
  name: string;
  scopes: Scope[];
  workspace_id: string | null;
  expires_at: Date | null;
  revoked_at: Date | null;
  created_at: Date;
}

/** A key with the data for authentication, and the workspace of its requests. */
export interface KeyOwner {
  id: string;
  tenant_id: string;
  /** The only workspace the key may use, if it is bound. */
  workspace_id: string | null;
  default_workspace_id: string;
  scopes: Scope[];
  /** Remaining validity at the time of the query; null: unlimited. */
  remaining_ms: number | null;
  revoked_at: Date | null;
  plan_tier: string;
  /** From its tenant's settings. */
  rate_limits: RateSettings | null;
}

const OWNER = `
  select k.id, k.tenant_id, k.workspace_id, k.scopes, k.revoked_at, t.plan_tier, t.settings->'rate_limits' as rate_limits,
    (extract(epoch from k.expires_at - clock_timestamp()) * 1000)::float8 as remaining_ms,
    coalesce(k.workspace_id, (select w.id from workspaces w where w.tenant_id = k.tenant_id order by w.created_at, w.id limit 1))
      as default_workspace_id
  from api_keys k join tenants t on t.id = k.tenant_id`;

/** Finds a key of any tenant by its SHA-256; for `asMaintenance`. */
export async function findKeyByHash(tx: Tx, hash: Buffer): Promise<KeyOwner | undefined> {
  const [row] = await tx.query<KeyOwner>(`${OWNER} where k.key_hash = $1`, [hash]);
  return row;
}

/** Finds a key of any tenant by its id; for `asMaintenance`. */
export async function findKeyById(tx: Tx, id: string): Promise<KeyOwner | undefined> {
  const [row] = await tx.query<KeyOwner>(`${OWNER} where k.id = $1`, [id]);
  return row;
}

const COLUMNS = 'id, name, scopes, workspace_id, expires_at, revoked_at, created_at';

interface NewApiKey {
  id: string;
  tenantId: string;
  name: string;
  hash: Buffer;
  scopes: readonly Scope[];
  workspaceId?: string | undefined;
  expiresAt?: string | undefined;
}

/** Stores a key by its hash; undefined if it has already expired. */
export async function insertApiKey(tx: Tx, key: NewApiKey): Promise<ApiKeyRow | undefined> {
  const rows = await tx.query<ApiKeyRow>(
    `insert into api_keys (id, tenant_id, workspace_id, name, key_hash, scopes, expires_at)
     select $1, $2, $3, $4, $5, $6, $7::timestamptz where coalesce($7::timestamptz > clock_timestamp(), true)
     returning ${COLUMNS}`,
    [key.id, key.tenantId, key.workspaceId ?? null, key.name, key.hash, [...key.scopes], key.expiresAt ?? null],
  );
  return rows[0];
}

/** Inserts or replaces the key of this id, and makes it valid again. False if nothing changed. */
export async function putApiKey(tx: Tx, key: NewApiKey): Promise<boolean> {
  const rows = await tx.query(
    `insert into api_keys as k (id, tenant_id, name, key_hash, scopes) values ($1, $2, $3, $4, $5)
     on conflict (id) do update set key_hash = excluded.key_hash, scopes = excluded.scopes, revoked_at = null
       where (k.key_hash, k.scopes) is distinct from (excluded.key_hash, excluded.scopes) or k.revoked_at is not null
     returning 1 as changed`,
    [key.id, key.tenantId, key.name, key.hash, [...key.scopes]],
  );
  return rows.length > 0;
}

/** A page of keys, newest first; only of one workspace, if given. */
export async function listApiKeys(
  tx: Tx,
  page: { before?: string | undefined; limit: number; workspaceId?: string | undefined },
): Promise<ApiKeyRow[]> {
  const query = selectFrom(COLUMNS, 'api_keys', [
    ['id', '<', page.before],
    ['workspace_id', '=', page.workspaceId],
  ]);
  return fetchRows<ApiKeyRow>(tx, query.orderBy('id', 'desc').limit(page.limit));
}

/** A key; only of this workspace, if given. */
export async function findApiKey(tx: Tx, id: string, workspaceId?: string): Promise<ApiKeyRow | undefined> {
  const query = selectFrom(COLUMNS, 'api_keys', [
    ['id', '=', id],
    ['workspace_id', '=', workspaceId],
  ]);
  const [row] = await fetchRows<ApiKeyRow>(tx, query);
  return row;
}

export interface ApiKeyChange {
  name?: string | undefined;
  /** Null: never expires. */
  expiresAt?: string | null | undefined;
}

/** Changes the given fields of a key that is not revoked; false if it would already have expired. */
export async function changeApiKey(tx: Tx, id: string, { name, expiresAt }: ApiKeyChange): Promise<boolean> {
  const rows = await tx.query(
    `update api_keys set name = coalesce($2, name), expires_at = case when $3 then $4::timestamptz else expires_at end
     where id = $1 and revoked_at is null and (not $3 or coalesce($4::timestamptz > clock_timestamp(), true)) returning id`,
    [id, name ?? null, expiresAt !== undefined, expiresAt ?? null],
  );
  return rows.length > 0;
}

/** Revokes a key; `isNew` is false if it was revoked before. Undefined if there is none; only of this workspace, if given. */
export async function revokeApiKey(tx: Tx, id: string, workspaceId?: string): Promise<{ isNew: boolean } | undefined> {
  const [row] = await tx.query<{ isNew: boolean }>(
    `update api_keys k set revoked_at = coalesce(k.revoked_at, now()) from (select id, revoked_at from api_keys where id = $1 for update) old
     where k.id = old.id and ($2::uuid is null or k.workspace_id = $2) returning old.revoked_at is null as "isNew"`,
    [id, workspaceId ?? null],
  );
  return row;
}
