/** Sends a command's requests to a running service, or opens a data directory that no process holds. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { loadClientConfig, type ClientConfig } from '../../config.ts';
import { answers, createClient, type Client } from './client.ts';
import { isHttpUrl } from '../../lib/environment.ts';
import { CommandError, EXIT } from './errors.ts';
import { line } from './print.ts';

interface Place {
  url?: string | undefined;
  key?: string | undefined;
}

/**
 * Does `work` with a client of the named service, else of the one on this machine. If none is named and none answers,
 * opens an embedded data directory for this command alone, unless another process has it open.
 */
export async function withClient<T>(place: Place, work: (client: Client) => Promise<T>): Promise<T> {
  const config = loadClientConfig();
  const named = place.url?.replace(/\/+$/, '') ?? config.url;
  const url = named ?? config.defaultUrl;
  const key = place.key ?? config.apiKey ?? keptKey(config);
  if (!isHttpUrl(url)) {
    throw new CommandError(
      EXIT.usage,
      `"${line(url)}" is no address of a service: it begins with http:// or https://.`,
    );
  }
  if (key !== undefined && !/^[\x21-\x7e]+$/.test(key)) {
    throw new CommandError(
      EXIT.usage,
      'The key has characters that no key has: a space, a line break, or others than ASCII.',
    );
  }
  if (named === undefined && hasData(config) && !(await answers(url))) {
    // Only now, since loading a whole service takes longer than asking one.
    const { withDataDir } = await import('./data-dir.ts');
    return withDataDir(place.key, work);
  }
  return work(createClient({ url, key }));
}

function hasData({ embedded, dataDir }: ClientConfig): boolean {
  return embedded && dataDir !== 'memory:' && existsSync(dataDir);
}

/** The key that embedded mode made at its first start. */
function keptKey({ embedded, dataDir }: ClientConfig): string | undefined {
  const file = join(dataDir, 'api-key');
  return embedded && existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
}
