/** A tenant's secrets: encrypted at rest, read only by a call about to send one. */
import { randomBytes } from 'node:crypto';
import type { Keyring, SealedSecret, SecretOwner } from '../../core/secret-box.ts';
import type { Database, Tx } from '../../db/database.ts';
import { loadSealedSecrets, putSecret } from '../../db/secrets.ts';
import type { SealedSecretRow, SecretRow } from '../../db/secrets.ts';

/** Stores a value under a name, replacing an earlier one. Absent hosts stay unchanged. */
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
  /** Where it may be sent; null: anywhere. */
  hosts: string[] | null;
}

/** Secrets by name, as far as they exist. Throws `SecretUnreadableError`. */
export async function readSecrets(
  { db, keyring }: { db: Database; keyring: Keyring },
  tenantId: string,
  names: readonly string[],
): Promise<Map<string, StoredSecret>> {
  const rows = await db.withTenant(tenantId, (tx) => loadSealedSecrets(tx, names));
  return new Map(rows.map((row) => [row.name, { value: open(keyring, tenantId, row), hosts: row.hosts }]));
}

function seal(keyring: Keyring, owner: SecretOwner, value: string): SealedSecret {
  return keyring.seal(owner, value, randomBytes(12));
}

function open(keyring: Keyring, tenantId: string, { name, key_id: keyId, sealed }: SealedSecretRow): string {
  return keyring.open({ tenantId, name }, { keyId, sealed });
}
