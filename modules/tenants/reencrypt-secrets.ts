/** Re-encrypts stored values with the current key. */
import { randomBytes } from 'node:crypto';
import { SecretUnreadableError, type Keyring, type SealedSecret } from '../../core/secret-box.ts';
import type { Database, Tx } from '../../db/database.ts';
import { listSecretsUnderOtherKeys, resealSecret } from '../../db/secrets.ts';
import { listTenantIds } from '../../db/tenants.ts';
import { isKeyMark, markOnlyOwnKey, unreadableMarks } from './key-marks.ts';

interface SealedValue {
  id: string;
  /** The name it was encrypted under (`SecretOwner`). */
  name: string;
  key_id: string;
  sealed: Buffer;
}

/** A kind of encrypted values in a table. */
export interface SealedKind {
  /** A page, by id, of values encrypted with another key than `keyId`. */
  list: (tx: Tx, page: { keyId: string; after: string | undefined; limit: number }) => Promise<SealedValue[]>;
  /** Replaces a value's encryption; false if it was changed or deleted in between. */
  reseal: (tx: Tx, id: string, change: { from: Buffer; to: SealedSecret }) => Promise<boolean>;
}

const SECRETS: SealedKind = {
  async list(tx, { keyId, after = '', limit }) {
    const rows = await listSecretsUnderOtherKeys(tx, { keyId, after, limit });
    return rows.map((row) => ({ ...row, id: row.name }));
  },
  reseal: resealSecret,
};

interface Reencrypted {
  reencrypted: number;
  /** Values whose key is missing: each as `tenant name`. */
  unreadable: string[];
  /** Whether processes can start without any other key from now on. */
  isDone: boolean;
}

interface Work {
  db: Database;
  keyring: Keyring;
  result: Reencrypted;
}

const PAGE = 200;

/**
 * Re-encrypts all tenants' secrets, and `besides`, with the current key, so that older keys can be removed. Safe while
 * a service or another copy runs: concurrent changes use the current key anyway. `isLost`: the other keys are gone, and
 * with them all that they encrypt.
 */
export async function reencryptSecrets(
  { db, keyring }: Omit<Work, 'result'>,
  { isLost = false, besides = [] }: { isLost?: boolean; besides?: readonly SealedKind[] } = {},
): Promise<Reencrypted> {
  const result: Reencrypted = { reencrypted: 0, unreadable: [], isDone: false };
  for (const tenantId of await db.asMaintenance(listTenantIds)) {
    for (const kind of [SECRETS, ...besides]) await reencryptKind({ db, keyring, result }, tenantId, kind);
  }
  const isWhole = result.unreadable.length === 0 && (await unreadableMarks({ db, keyring })).length === 0;
  if (isWhole || isLost) await markOnlyOwnKey({ db, keyring });
  return { ...result, isDone: isWhole || isLost };
}

async function reencryptKind(work: Work, tenantId: string, kind: SealedKind): Promise<void> {
  const { db, keyring, result } = work;
  const keyId = keyring.currentKeyId();
  for (let after: string | undefined; ;) {
    const page = { keyId, after, limit: PAGE };
    const rows = await db.withTenant(tenantId, (tx) => kind.list(tx, page));
    for (const { id, name, key_id, sealed } of rows.filter((row) => !isKeyMark(row.name))) {
      const owner = { tenantId, name };
      const value = read(keyring, owner, { keyId: key_id, sealed });
      if (value === undefined) {
        result.unreadable.push(`${tenantId} ${name}`);
        continue;
      }
      const change = { from: sealed, to: keyring.seal(owner, value, randomBytes(12)) };
      if (await db.withTenant(tenantId, (tx) => kind.reseal(tx, id, change))) result.reencrypted += 1;
    }
    after = rows.at(-1)?.id;
    if (rows.length < PAGE) return;
  }
}

/** Undefined if its key is missing. */
function read(keyring: Keyring, owner: { tenantId: string; name: string }, stored: SealedSecret): string | undefined {
  try {
    return keyring.open(owner, stored);
  } catch (error) {
    if (error instanceof SecretUnreadableError) return undefined;
    throw error;
  }
}
