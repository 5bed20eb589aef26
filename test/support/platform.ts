/** A whole platform on a database of its own: what a process builds, with workers and the API where a test wants them. */
import { randomUUID } from 'node:crypto';
import pino from 'pino';
import { ROUTES } from '../../api/routes.ts';
import { serve } from '../../api/serve.ts';
import { loadConfig } from '../../config.ts';
import type { Context } from '../../modules/governance/context.ts';
import { DEFAULT_TENANT_ID, DEFAULT_WORKSPACE_ID } from '../../modules/tenants/bootstrap.ts';
import { openPlatform } from '../../modules/platform/open-platform.ts';
import { startWorkers, type Workers } from '../../workers/start-workers.ts';
import { createTestServices, type TestServices } from './database.ts';
import { DOMAIN_MODE, type Mode } from './modes.ts';

export interface TestPlatform {
  context: Context;
  /** The operator's, with the scope `admin`. */
  apiKey: string;
  /** The default tenant's. */
  tenantId: string;
  workspaceId: string;
  /** Log lines so far. */
  log: Record<string, unknown>[];
  /** With `workers: true`. */
  workers: Workers | undefined;
  /** What another process on the same database and queue needs; none in embedded mode. */
  env: Record<string, string>;
  /** With `api: true`: `http://127.0.0.1:port`. */
  url: string | undefined;
  /** Stops workers and API, closes everything, and drops the database. */
  close: () => Promise<void>;
}

export interface TestPlatformOptions {
  /** Adds to the configuration, as the environment would. */
  env?: Record<string, string>;
  /** Serves the queues in this process. */
  workers?: boolean;
  /** Serves the HTTP API on a free port. */
  api?: boolean;
  /** In place of new ones; dropped with the platform. */
  services?: TestServices;
}

/** Opens a platform in the given mode: on a migrated database and a queue prefix of its own. */
export async function openTestPlatform(
  mode: Mode = DOMAIN_MODE,
  options: TestPlatformOptions = {},
): Promise<TestPlatform> {
  const services = options.services ?? (await createTestServices(mode, { forWorkers: options.workers === true }));
  const closers = [services.drop];
  const close = async () => {
    for (const each of closers.splice(0).toReversed()) await each();
  };
  try {
    const apiKey = `test-${randomUUID()}`;
    const config = loadConfig({ DROVER_API_KEY: apiKey, ...services.env, ...options.env });
    const log: Record<string, unknown>[] = [];
    const logger = pino({ level: 'info' }, { write: (line: string) => void log.push(JSON.parse(line)) });
    const { context, close: closePlatform } = await openPlatform(config, { log: logger });
    closers.push(closePlatform);
    const workers = options.workers ? await startWorkers(context) : undefined;
    if (workers) closers.push(() => workers.stop(3000));
    const api = options.api ? await serve(context, ROUTES, { host: '127.0.0.1', port: 0 }) : undefined;
    if (api) closers.push(() => api.close(1000));
    const owner = { tenantId: DEFAULT_TENANT_ID, workspaceId: DEFAULT_WORKSPACE_ID };
    return { context, apiKey, ...owner, log, workers, env: services.env, url: api?.url, close };
  } catch (error) {
    await close();
    throw error;
  }
}
