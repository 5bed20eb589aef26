/**
 * Tracks which keys encrypt secrets. Each such key has a mark, made by the first process that starts with it: an empty
 * secret of the default tenant. A process that cannot read all marks lacks a key, and would fail at the first call that
 * needs it.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { SecretUnreadableError, type Keyring } from '../../core/secret-box.ts';
import type { Database, Tx } from '../../db/database.ts';
import {
  deleteSecret,
  findNewestSecret,
  listSecretsBeginning,
  lockSecretsBeginning,
  putSecret,
  type SealedSecretRow,
} from '../../db/secrets.ts';
import { listTenantIds } from '../../db/tenants.ts';
import { ConfigError } from '../../lib/environment.ts';
import { DEFAULT_TENANT_ID as tenantId, ensureDefaultTenant } from './bootstrap.ts';

/** No client's secret can have such a name. */
const MARK = 'drover:key:';

export const isKeyMark = (name: string): boolean => name.startsWith(MARK);

interface Stores {
  db: Database;
  keyring: Keyring;
}

/**
 * Marks the current key. Throws `ConfigError` if a key in use is missing, even if processes start together. `dataDir`:
 * the folder with one of the keys.
 */
export async function expectSecretKeys(stores: Stores, dataDir: string | undefined): Promise<void> {
  try {
    await markOwnKey(stores);
  } catch (error) {
    if (!(error instanceof SecretUnreadableError)) throw error;
    const lacks = dataDir === undefined ? 'lacks' : `and ${join(dataDir, 'secret-key')} lack`;
    const remedy = 'that key, or both as in new,old until secrets:reencrypt has run (docs/secrets.md)';
    throw new ConfigError(
      'DROVER_SECRET_KEY',
      `${lacks} a key that this database was used with, so that secrets may be under it`,
      remedy,
    );
  }
}

async function markOwnKey({ db, keyring }: Stores): Promise<void> {
  const marks = await db.withTenant(tenantId, (tx) => readMarks(tx, keyring));
  if (marks.includes(markOf(keyring))) return;
  // Secrets stored by 0.1.0 have no marks.
  if (marks.length === 0) await readNewestSecret({ db, keyring });
  await db.withTenant(tenantId, async (tx) => {
    await lockSecretsBeginning(tx, MARK);
    await readMarks(tx, keyring);
    await putMark(tx, keyring);
  });
}

/** Makes the current key the only marked one. */
export async function markOnlyOwnKey({ db, keyring }: Stores): Promise<void> {
  await ensureDefaultTenant(db);
  await db.withTenant(tenantId, async (tx) => {
    await lockSecretsBeginning(tx, MARK);
    for (const { name } of await listSecretsBeginning(tx, MARK)) await deleteSecret(tx, name);
    await putMark(tx, keyring);
  });
}

/** Names of the marks whose key is missing. */
export async function unreadableMarks({ db, keyring }: Stores): Promise<string[]> {
  const rows = await db.withTenant(tenantId, (tx) => listSecretsBeginning(tx, MARK));
  return rows.filter((row) => !isReadable(keyring, row)).map(({ name }) => name);
}

function isReadable(keyring: Keyring, row: SealedSecretRow): boolean {
  try {
    open(keyring, tenantId, row);
    return true;
  } catch (error) {
    if (error instanceof SecretUnreadableError) return false;
    throw error;
  }
}

const markOf = (keyring: Keyring): string => MARK + keyring.currentKeyId();

async function readMarks(tx: Tx, keyring: Keyring): Promise<string[]> {
  const rows = await listSecretsBeginning(tx, MARK);
  for (const row of rows) open(keyring, tenantId, row);
  return rows.map(({ name }) => name);
}

async function putMark(tx: Tx, keyring: Keyring): Promise<void> {
  const owner = { tenantId, name: markOf(keyring) };
  await putSecret(tx, { ...owner, ...keyring.seal(owner, 'none', randomBytes(12)) });
}

/** Reads the newest secret of the first tenant with any. */
async function readNewestSecret({ db, keyring }: Stores): Promise<void> {
  for (const id of await db.asMaintenance(listTenantIds)) {
    const newest = await db.withTenant(id, findNewestSecret);
    if (newest) return void open(keyring, id, newest);
  }
}

function open(keyring: Keyring, owner: string, { name, key_id: keyId, sealed }: SealedSecretRow): string {
  return keyring.open({ tenantId: owner, name }, { keyId, sealed });
}
