/** Secrets that an embedded installation makes at its first start, beside its data, readable by its owner alone. */
import { mkdir, open, readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Config } from '../../config.ts';
import { newSecret } from '../../lib/new-id.ts';
import { createKeyring } from '../../core/secret-box.ts';
import type { Keyring } from '../../core/secret-box.ts';

/**
 * The keys of DROVER_SECRET_KEY. In embedded mode also the data directory's key, made at the first start: it encrypts
 * if the variable is unset, and still decrypts if it is set later.
 */
export async function openKeyring(config: Pick<Config, 'mode' | 'dataDir' | 'secretKeys'>): Promise<Keyring> {
  if (config.mode !== 'embedded') return createKeyring(config.secretKeys);
  return createKeyring([...config.secretKeys, await keptSecret(config.dataDir, 'secret-key')]);
}

/** The secret in a file of the data directory, made if missing. With `memory:` it is new each time. */
export async function keptSecret(dataDir: string, file: string, prefix = ''): Promise<string> {
  const made = `${prefix}${newSecret()}`;
  if (dataDir === 'memory:') return made;
  const path = join(dataDir, file);
  const kept = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  if (kept.trim() !== '') return kept.trim();
  await mkdir(dataDir, { recursive: true });
  // Written completely or not at all, and synced before anything is encrypted with it.
  const handle = await open(`${path}.new`, 'w', 0o600);
  try {
    await handle.chmod(0o600);
    await handle.writeFile(`${made}\n`);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(`${path}.new`, path);
  return made;
}
