/** A tenant's secrets: stored encrypted, read only by a call that is about to send one. */
import { randomBytes } from 'node:crypto';
import { SecretUnreadableError } from '../../core/secret-box.ts';
import type { Keyring, SealedSecret, SecretOwner } from '../../core/secret-box.ts';
import type { Database, Tx } from '../../db/database.ts';
import { listSecretsUnderOtherKeys, loadSealedSecrets, putSecret, resealSecret } from '../../db/secrets.ts';
import type { SealedSecretRow, SecretRow } from '../../db/secrets.ts';
import { listTenantIds } from '../../db/tenants.ts';
import { isKeyMark, markOnlyOwnKey, unreadableMarks } from './key-marks.ts';

/** Stores a value under a name of the tenant, in place of an earlier one. Hosts that are absent stay as they were. */
export async function storeSecret(
  tx: Tx,
  keyring: Keyring,
  secret: SecretOwner & { value: string; hosts?: readonly string[] | null | undefined },
): Promise<SecretRow & { created: boolean }> {
  const { tenantId, name, value, hosts } = secret;
  return putSecret(tx, { tenantId, name, hosts, ...seal(keyring, { tenantId, name }, value) });
}

interface StoredSecret {
  value: string;
  /** Where it may be sent; null where it does not say. */
  hosts: string[] | null;
}

/** Those of the secrets that there are. Throws `SecretUnreadableError`. */
export async function readSecrets(
  { db, keyring }: { db: Database; keyring: Keyring },
  tenantId: string,
  names: readonly string[],
): Promise<Map<string, StoredSecret>> {
  const rows = await db.withTenant(tenantId, (tx) => loadSealedSecrets(tx, names));
  return new Map(rows.map((row) => [row.name, { value: open(keyring, tenantId, row), hosts: row.hosts }]));
}

interface Reencrypted {
  reencrypted: number;
  /** Secrets under a key that is not there: each as `tenant name`. */
  unreadable: string[];
  /** Whether processes may start without any other key from now on. */
  isDone: boolean;
}

const PAGE = 200;

/**
 * Encrypts every tenant's secrets under the current key, so that the older ones can be taken away. Safe beside a
 * running service and beside itself: what somebody changes meanwhile is under the current key anyway. `isLost`: the other keys
 * are gone, and with them what cannot be read.
 */
export async function reencryptSecrets(
  { db, keyring }: { db: Database; keyring: Keyring },
  { isLost = false } = {},
): Promise<Reencrypted> {
  const result: Reencrypted = { reencrypted: 0, unreadable: [], isDone: false };
  const keyId = keyring.currentKeyId();
  for (const tenantId of await db.asMaintenance(listTenantIds)) {
    for (let after = ''; ;) {
      const rows = await db.withTenant(tenantId, (tx) => listSecretsUnderOtherKeys(tx, { keyId, after, limit: PAGE }));
      for (const row of rows.filter(({ name }) => !isKeyMark(name))) {
        result.reencrypted += await reencrypt(db, keyring, { tenantId, row, unreadable: result.unreadable });
      }
      after = rows.at(-1)?.name ?? after;
      if (rows.length < PAGE) break;
    }
  }
  const isWhole = result.unreadable.length === 0 && (await unreadableMarks({ db, keyring })).length === 0;
  if (isWhole || isLost) await markOnlyOwnKey({ db, keyring });
  return { ...result, isDone: isWhole || isLost };
}

async function reencrypt(
  db: Database,
  keyring: Keyring,
  { tenantId, row, unreadable }: { tenantId: string; row: SealedSecretRow; unreadable: string[] },
): Promise<0 | 1> {
  try {
    const to = seal(keyring, { tenantId, name: row.name }, open(keyring, tenantId, row));
    return (await db.withTenant(tenantId, (tx) => resealSecret(tx, row.name, { from: row.sealed, to }))) ? 1 : 0;
  } catch (error) {
    if (!(error instanceof SecretUnreadableError)) throw error;
    unreadable.push(`${tenantId} ${row.name}`);
    return 0;
  }
}

function seal(keyring: Keyring, owner: SecretOwner, value: string): SealedSecret {
  return keyring.seal(owner, value, randomBytes(12));
}

function open(keyring: Keyring, tenantId: string, { name, key_id: keyId, sealed }: SealedSecretRow): string {
  return keyring.open({ tenantId, name }, { keyId, sealed });
}
