/** Builds a process's parts in the order in which they depend on each other, and closes them in reverse. */
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { backoffMs, jitteredMs } from '../../core/backoff.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Keyring } from '../../core/secret-box.ts';
import { openBus } from '../../bus/open-bus.ts';
import type { Config } from '../../config.ts';
import { DataDirError, ofDataDir } from '../../db/data-dir-error.ts';
import { DatabaseRoleError } from '../../db/database-errors.ts';
import { isDatabaseAway, type Database } from '../../db/database.ts';
import { beginDataDir } from '../../db/embedded-image.ts';
import { migrate } from '../../db/migrate.ts';
import { openDatabase } from '../../db/open-database.ts';
import { voidLeases } from '../../db/leases.ts';
import type { Context } from '../governance/context.ts';
import { createDefinitionCache } from '../agents/definitions.ts';
import { createStartCache } from '../agents/start-cache.ts';
import { createPolicyCache } from '../governance/policy-cache.ts';
import { createSuspectPlace } from '../run-log/claim-suspect.ts';
import { createGroupCommit } from '../run-log/group-commit.ts';
import { tellingRefusals } from '../run-log/telling-refusals.ts';
import { createRunCache } from '../run-log/run-cache.ts';
import { createSharedReads } from '../run-log/shared-reads.ts';
import { createPositionWatch } from '../run-log/watch-positions.ts';
import { createBudgetCache } from '../budgets/budget-cache.ts';
import { createMetrics } from '../metrics.ts';
import type { Traces } from '../traces.ts';
import { limitRate, openQueueBackend } from '../../jobs/backend.ts';
import { createFairOrder } from '../../jobs/fair-order.ts';
import { createOutbox } from '../../jobs/outbox.ts';
import { createEmbeddings } from '../../llm/embeddings.ts';
import { payForEmbeddings } from '../model-calls/pay-for-embeddings.ts';
import { createModels } from '../../llm/models.ts';
import { createEgress } from '../../tools/egress.ts';
import { createTools, type Tools, type UnboundSecret } from '../../tools/execute-tool.ts';
import { createMemoryUses } from '../memory/count-uses.ts';
import { createOneByOne } from '../../lib/one-by-one.ts';
import { ensureDefaultTenant } from '../tenants/bootstrap.ts';
import { expectSecretKeys } from '../tenants/key-marks.ts';
import { keptSecret, openKeyring } from '../tenants/open-keyring.ts';
import { detectToolDrift } from '../tools-registry/detect-tool-drift.ts';
import { readSecrets } from '../tenants/secrets.ts';
import { domainFunctions } from './domain-functions.ts';
import { commitLanes } from './commit-lanes.ts';
import { createClosers, type Closers } from './closers.ts';
import { createLog, describingErrors } from './create-log.ts';
import { expectMigrated } from './expect-migrated.ts';
import { openStore } from './open-store.ts';

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 10_000;

export interface Platform {
  context: Context;
  /** Embedded mode: the admin key, made at the first start and kept in the data directory. */
  apiKey: string | undefined;
  /** Users of the platform add themselves here, and are closed before it. */
  closers: Pick<Closers, 'add'>;
  /** Resolves if the embedded database can no longer work in this process. */
  broken: Promise<Error>;
  close: () => Promise<void>;
}

interface PlatformOptions {
  log?: Logger;
  /** Aborts the opening, or the wait for a database, with its reason. */
  signal?: AbortSignal;
  /** The clock for memories; by default the machine's. */
  clock?: () => Date;
}

/**
 * Opens everything; on failure closes what it has opened. Embedded mode migrates by itself; elsewhere `migrate` is a
 * step of the deployment. Waits, with backoff, for a database that cannot be reached: a process that ended instead
 * would only be restarted again and again.
 */
export async function openPlatform(config: Config, options: PlatformOptions = {}): Promise<Platform> {
  const { signal = new AbortController().signal, clock = () => new Date() } = options;
  const log = describingErrors(options.log ?? createLog(config));
  for (let attempt = 1; ; attempt++) {
    const closers = createClosers((error, name) => log.error({ err: error, name }, 'closing failed'));
    try {
      return await openOnce(config, { log, signal, clock, closers });
    } catch (error) {
      // Failures to close are in the log; the first error matters more.
      await closers.close().catch(() => undefined);
      // An embedded database is never away, and nothing is gained by waiting for its disk.
      if (config.mode === 'embedded') throw ofDataDir(config.dataDir, error);
      // A wrong login stays wrong, although a pooler uses one code for it and for many temporary errors.
      if (error instanceof DatabaseRoleError || !isDatabaseAway(error)) throw error;
      const backoff = { firstMs: FIRST_WAIT_MS, mostMs: LONGEST_WAIT_MS, attempt };
      const waitMs = jitteredMs(backoffMs(backoff), 0.25, Math.random());
      log.warn({ err: error, wait_ms: waitMs }, 'the database cannot be reached; waiting for it');
      await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
}

/** For an embedded database to write everything. */
const FLUSH_MS = 60_000;

interface Opening {
  log: Logger;
  signal: AbortSignal;
  clock: () => Date;
  closers: Closers;
}

async function openOnce(config: Config, { log, signal, clock, closers }: Opening): Promise<Platform> {
  signal.throwIfAborted();
  const embedded = config.mode === 'embedded';
  const { db, broken } = await openData(config, { log, signal });
  // Other databases keep commits on a server, whatever happens to the connections.
  closers.add('database', () => db.close(), { holdsData: embedded, graceMs: embedded ? FLUSH_MS : 0 });
  const { apiKey, keyring } = await prepareDatabase(config, db, signal);
  const traces = await openTracesIfAsked(config, { db, log, closers });
  signal.throwIfAborted();
  // A bus that is away would report an error with every batch.
  const onBusError = limitRate((error, source) => log.warn({ err: error, source }, 'bus error'));
  const bus = await openBus(config, db, (error) => onBusError(error, 'bus'));
  closers.add('bus', () => bus.close());
  const egress = createEgress({ allow: [...config.egressAllow], allowLoopback: embedded });
  const governance = createPolicyCache(db);
  const tools: Tools = createTools({
    egress,
    stdioCommands: embedded ? 'any' : [...config.stdioCommands],
    builtins: domainFunctions(
      { db, governance, readResource: (tool, uri, attempt) => tools.readResource(tool, uri, attempt) },
      () => context,
    ),
    readSecrets: (tenantId, names) => readSecrets({ db, keyring }, tenantId, names),
    onToolsChanged: (drift) => detectToolDrift(db, drift),
    onUnboundSecret: warnOnce(log),
    onFault: (error) => log.warn({ err: error }, 'a tool failed for a fault of ours'),
  });
  closers.add('tools', () => tools.close());
  const queues = await openQueueBackend(config, db, (error, source) => log.warn({ err: error, source }, 'queue error'));
  closers.add('queues', () => queues.close(), { graceMs: config.shutdownGraceMs });
  const order = createFairOrder();
  const outbox = createOutbox({ db, queues, order, log });
  closers.add('outbox', () => outbox.close());
  const memoryUses = createMemoryUses({ db, log });
  closers.add('uses of memories', () => memoryUses.close());
  const fileStore = await openStore(config, { closers, log });
  const fileCache = createFileCache();
  signal.throwIfAborted();
  const models = createModels(config);
  const [budgets, metrics] = [createBudgetCache(db), createMetrics()];
  const embeddings = createEmbeddings(config, payForEmbeddings({ db, budgets, metrics, config }));
  closers.add('embeddings', () => embeddings.close());
  const engine = {
    ...tellingRefusals(createGroupCommit(db, commitLanes(db.kind, config.poolSize)), log),
    runCache: createRunCache(),
    suspectPlace: createSuspectPlace(),
    governance,
    budgets,
    definitions: createDefinitionCache(db),
    starts: createStartCache(),
    reads: createSharedReads(db),
    positions: createPositionWatch({ db, bus, log }),
    fragmentWriters: createOneByOne(),
    memoryUses,
    metrics,
    traces,
  };
  const parts = { db, bus, queues, order, outbox, models, embeddings, tools, egress, keyring, fileStore, fileCache };
  const context: Context = { config, log, clock, ...parts, ...engine };
  return { context, apiKey, closers, broken, close: () => closers.close() };
}

/** A process that exports nothing loads nothing of it. */
async function openTracesIfAsked(
  { traces: settings }: Config,
  { closers, ...parts }: { db: Database } & Pick<Opening, 'log' | 'closers'>,
): Promise<Traces | undefined> {
  if (!settings) return undefined;
  const { openTraces } = await import('../trace-export/open-traces.ts');
  const traces = await openTraces(settings, parts);
  // All that commits is closed before it, and the database after it.
  closers.add('traces', () => traces.close());
  return traces;
}

const createFileCache = () =>
  new LRUCache<string, string>({
    maxSize: LIMITS.fileCacheChars,
    sizeCalculation: (content) => Math.max(1, content.length),
    ttl: LIMITS.fileCacheSeconds * 1000,
  });

/** Without an image PGlite makes its own database: slower, with the same result. */
async function openData(
  config: Config,
  { log, signal }: Pick<Opening, 'log' | 'signal'>,
): Promise<{ db: Database } & Pick<Platform, 'broken'>> {
  if (config.mode === 'embedded') {
    await beginDataDir(config.dataDir).catch((error: unknown) => {
      // Without an image it would only stop later, with half a database in the directory.
      if (error instanceof DataDirError && error.dataDir === config.dataDir) throw error;
      log.debug({ err: error }, 'a new database begins without an image');
    });
    signal.throwIfAborted();
  }
  const onError = (error: Error) => log.warn({ err: error }, 'database connection lost');
  let onBroken: (error: Error) => void = () => undefined;
  const broken = new Promise<Error>((resolve) => {
    onBroken = resolve;
  });
  const onWait = (message: string) => log.warn(message);
  return { db: await openDatabase(config, { onError, onBroken, onWait }), broken };
}

/** Warns once per process, tool and secret: every call uses it. */
function warnOnce(log: Logger): (used: UnboundSecret) => void {
  const warned = new LRUCache<string, true>({ max: 1000 });
  return ({ tenantId, toolId, secret }) => {
    const key = `${tenantId} ${toolId} ${secret}`;
    if (warned.has(key)) return;
    warned.set(key, true);
    log.warn(
      { tenant: tenantId, tool: toolId, secret },
      'a tool uses a secret that names no hosts: it may be sent anywhere',
    );
  };
}

/**
 * Makes the database ready for this build. Returns the key of the default tenant's admin, if any, and the keyring for
 * secrets.
 */
async function prepareDatabase(
  config: Config,
  db: Database,
  signal: AbortSignal,
): Promise<{ apiKey: string | undefined; keyring: Keyring }> {
  signal.throwIfAborted();
  const embedded = config.mode === 'embedded';
  if (embedded) await migrate(config, db);
  await expectMigrated(db);
  if (embedded) await voidLeases(db);
  const apiKey = config.apiKey ?? (embedded ? await keptSecret(config.dataDir, 'api-key', 'drv_') : undefined);
  await ensureDefaultTenant(db, { apiKey });
  const keyring = await openKeyring(config);
  await expectSecretKeys({ db, keyring }, embedded ? config.dataDir : undefined);
  return { apiKey, keyring };
}
