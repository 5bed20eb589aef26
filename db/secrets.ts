import type { SealedSecret } from '../core/secret-box.ts';
import type { Tx } from './database.ts';
import { fetchRows, selectFrom } from './query-builder.ts';

export interface SecretRow {
  name: string;
  /** Hosts to which it may be sent; null if not restricted. */
  hosts: string[] | null;
  created_at: Date;
  updated_at: Date;
}

export interface SealedSecretRow {
  name: string;
  hosts: string[] | null;
  key_id: string;
  sealed: Buffer;
}

/** Inserts or replaces a secret. `created`: the name is new. Without `hosts` they stay unchanged; null removes them. */
export async function putSecret(
  tx: Tx,
  secret: SealedSecret & { tenantId: string; name: string; hosts?: readonly string[] | null | undefined },
): Promise<SecretRow & { created: boolean }> {
  const { tenantId, name, keyId, sealed, hosts } = secret;
  const [row] = await tx.query<SecretRow & { created: boolean }>(
    `insert into secrets (tenant_id, name, key_id, sealed, hosts) values ($1, $2, $3, $4, $5::text[])
     on conflict (tenant_id, name)
       do update set key_id = excluded.key_id, sealed = excluded.sealed, updated_at = clock_timestamp(),
         hosts = case when $6::boolean then excluded.hosts else secrets.hosts end
     returning name, hosts, created_at, updated_at, xmax = 0 as created`,
    [tenantId, name, keyId, sealed, hosts ?? null, hosts !== undefined],
  );
  if (!row) throw new Error('A stored secret did not come back.');
  return row;
}

/** A secret's data without its value. */
export async function findSecret(tx: Tx, name: string): Promise<SecretRow | undefined> {
  const [row] = await tx.query<SecretRow>('select name, hosts, created_at, updated_at from secrets where name = $1', [
    name,
  ]);
  return row;
}

/** A page of secrets by name, without their values. */
export async function listSecrets(tx: Tx, page: { after?: string | undefined; limit: number }): Promise<SecretRow[]> {
  // Names with a colon are Drover's own.
  const query = selectFrom('name, hosts, created_at, updated_at', 'secrets').whereNot('name', 'like', '%:%');
  if (page.after !== undefined) void query.whereRaw('name collate "C" > ?', [page.after]);
  return fetchRows<SecretRow>(tx, query.orderByRaw('name collate "C"').limit(page.limit));
}

/** Deletes a secret; false if there is none. */
export async function deleteSecret(tx: Tx, name: string): Promise<boolean> {
  return (await tx.query('delete from secrets where name = $1 returning name', [name])).length > 0;
}

/** Encrypted values of these names, unordered; missing ones are left out. */
export async function loadSealedSecrets(tx: Tx, names: readonly string[]): Promise<SealedSecretRow[]> {
  return tx.query<SealedSecretRow>('select name, hosts, key_id, sealed from secrets where name = any($1::text[])', [
    names,
  ]);
}

/** The tenant's secrets with this prefix. */
export async function listSecretsBeginning(tx: Tx, prefix: string): Promise<SealedSecretRow[]> {
  return tx.query<SealedSecretRow>('select name, hosts, key_id, sealed from secrets where starts_with(name, $1)', [
    prefix,
  ]);
}

/** Locks the secrets with this prefix until the transaction ends. */
export async function lockSecretsBeginning(tx: Tx, prefix: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('drover:secrets:' || $1, 0))`, [prefix]);
}

/** The last stored secret of the tenant. */
export async function findNewestSecret(tx: Tx): Promise<SealedSecretRow | undefined> {
  const [row] = await tx.query<SealedSecretRow>(
    'select name, hosts, key_id, sealed from secrets order by updated_at desc limit 1',
  );
  return row;
}

/** Hosts of these secrets, as far as they exist. */
export async function findSecretHosts(tx: Tx, names: readonly string[]): Promise<Map<string, string[] | null>> {
  const rows = await tx.query<Pick<SecretRow, 'name' | 'hosts'>>(
    'select name, hosts from secrets where name = any($1::text[])',
    [names],
  );
  return new Map(rows.map(({ name, hosts }) => [name, hosts]));
}

/** A page, by name, of the tenant's secrets encrypted under another key than `keyId`. */
export async function listSecretsUnderOtherKeys(
  tx: Tx,
  page: { keyId: string; after: string; limit: number },
): Promise<SealedSecretRow[]> {
  return tx.query<SealedSecretRow>(
    `select name, hosts, key_id, sealed from secrets
     where key_id <> $1 and name collate "C" > $2 order by name collate "C" limit $3`,
    [page.keyId, page.after, page.limit],
  );
}

/** Re-encrypts a secret; false if it was changed or deleted meanwhile. */
export async function resealSecret(tx: Tx, name: string, change: { from: Buffer; to: SealedSecret }): Promise<boolean> {
  const rows = await tx.query(
    'update secrets set key_id = $3, sealed = $4 where name = $1 and sealed = $2 returning name',
    [name, change.from, change.to.keyId, change.to.sealed],
  );
  return rows.length > 0;
}
