/** Secrets at rest: AES-256-GCM under a key made from DROVER_SECRET_KEY, bound to their tenant and name. */
import { createCipheriv, createDecipheriv, scryptSync } from 'node:crypto';
import { sha256 } from './ids.ts';

export interface SecretOwner {
  tenantId: string;
  name: string;
}

/** The stored form. `sealed` is nonce (12 bytes), tag (16) and ciphertext. */
export interface SealedSecret {
  keyId: string;
  sealed: Buffer;
}

/** The keys of an installation: the first encrypts, each decrypts. */
export interface Keyring {
  /** Id of the key used for encryption. Reveals nothing about the key. */
  currentKeyId(): string;
  /** `nonce` must be 12 new random bytes. */
  seal(owner: SecretOwner, value: string, nonce: Buffer): SealedSecret;
  /** Throws `SecretUnreadableError` if the key is missing, or the row was not written for this owner. */
  open(owner: SecretOwner, stored: SealedSecret): string;
}

/** A stored secret that cannot be decrypted. The message has its name, but nothing of its value. */
export class SecretUnreadableError extends Error {
  constructor(name: string, why: string) {
    super(`The secret "${name}" cannot be read: ${why}.`);
    this.name = 'SecretUnreadableError';
  }
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** About 40 ms a key, since DROVER_SECRET_KEY may be a guessable phrase. */
const SCRYPT = { N: 2 ** 14, r: 8, p: 1 };

interface Key {
  id: string;
  bytes: Buffer;
}

/** Creates a keyring from one or more passphrases, the current one first. Keys are derived on first use. */
export function createKeyring(passphrases: readonly string[]): Keyring {
  let derived: Key[] | undefined;
  const keys = () => (derived ??= passphrases.map(deriveKey));
  const current = () => {
    const [key] = keys();
    if (!key) throw new Error('a keyring needs a key');
    return key;
  };
  return {
    currentKeyId: () => current().id,
    seal(owner, value, nonce) {
      const { id, bytes } = current();
      const cipher = createCipheriv('aes-256-gcm', bytes, nonce).setAAD(boundTo(owner));
      const ciphertext = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
      return { keyId: id, sealed: Buffer.concat([nonce, cipher.getAuthTag(), ciphertext]) };
    },
    open(owner, { keyId, sealed }) {
      const key = keys().find(({ id }) => id === keyId);
      if (!key) throw new SecretUnreadableError(owner.name, 'DROVER_SECRET_KEY lacks the key that it was stored under');
      try {
        const nonce = sealed.subarray(0, NONCE_BYTES);
        const decipher = createDecipheriv('aes-256-gcm', key.bytes, nonce, { authTagLength: TAG_BYTES });
        decipher.setAAD(boundTo(owner)).setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const ciphertext = sealed.subarray(NONCE_BYTES + TAG_BYTES);
        return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8');
      } catch {
        throw new SecretUnreadableError(owner.name, 'it was changed in the database, or belongs elsewhere');
      }
    },
  };
}

function deriveKey(passphrase: string): Key {
  const bytes = scryptSync(passphrase, 'drover: secrets at rest', 32, SCRYPT);
  return { id: sha256(bytes).toString('hex').slice(0, 16), bytes };
}

/** Neither part can contain a NUL, so each owner gets distinct bytes. */
function boundTo({ tenantId, name }: SecretOwner): Buffer {
  return Buffer.from(`drover secret 1\0${tenantId}\0${name}`);
}
