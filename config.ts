import { join, resolve } from 'node:path';
import { LIMITS } from './core/limits.ts';
import { CONTRACTS, type QueueName } from './jobs/contracts.ts';
import {
  ConfigError,
  expectOnce,
  parseInteger,
  quote,
  read,
  readHttpUrl,
  readInteger,
  readKey,
  readList,
  readPort,
  unreadVariables,
  type Environment,
} from './lib/environment.ts';
import { parseFilesUrl, type FileStoreAddress } from './lib/file-store.ts';
import { readTraceSettings, type TraceSettings } from './lib/trace-settings.ts';
import { readModelSettings, type ModelSettings } from './llm/model-settings.ts';
import { isAddressRule } from './tools/address-rules.ts';

const QUEUE_NAMES = CONTRACTS.map(({ name }) => name);

/** What follows `DROVER_` in the variables that are read; a test compares them. */
export const VARIABLES: readonly string[] = (
  'API_KEY CONCURRENCY CONTEXT_WINDOWS CORS_ORIGINS DATA_DIR EGRESS_ALLOW EMBEDDING_MODEL FILES_URL HEARTBEAT_TIMEOUT_MS LEASE_MS ' +
  'MODEL MODEL_LIMITS POOL_SIZE QUEUES QUEUE_PREFIX RUN_OUTPUT_BYTES SECRET_KEY SHUTDOWN_MS STDIO_COMMANDS URL WORKER_PORT'
).split(' ');

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Everything that the environment decides. docs/configuration.md describes the variables. */
export interface Config extends ModelSettings {
  readonly mode: 'embedded' | 'postgres' | 'full';
  readonly databaseUrl: string | undefined;
  /** The same database behind a pooler in transaction mode, for requests and runs. */
  readonly databasePoolUrl: string | undefined;
  readonly redisUrl: string | undefined;
  /** An absolute path, or `memory:`. */
  readonly dataDir: string;
  /** Where contents of files are kept; undefined where nobody has said, and where nothing is kept (`memory:`). */
  readonly fileStore: FileStoreAddress | undefined;
  readonly port: number;
  readonly host: string;
  /** Origins whose pages may read the API's answers in a browser; `*`: any. */
  readonly corsOrigins: readonly string[];
  /** Where a worker process serves its health and its numbers; undefined: nowhere. */
  readonly workerPort: number | undefined;
  readonly apiKey: string | undefined;
  /** Keys that secrets are encrypted under, the current one first. Embedded mode adds the one of its data directory. */
  readonly secretKeys: readonly string[];
  /** The queues that this process serves when it is a worker. */
  readonly queues: readonly QueueName[];
  /** Jobs of a queue that one worker process runs at a time. */
  readonly concurrency: Readonly<Record<QueueName, number>>;
  /** Hosts and CIDRs. */
  readonly egressAllow: readonly string[];
  readonly stdioCommands: readonly string[];
  readonly leaseMs: number;
  /** How long after its last heartbeat an agent that sends them counts as offline. */
  readonly heartbeatTimeoutMs: number;
  /** What the outputs of one run's tool calls may come to, in bytes. */
  readonly runOutputBytes: number;
  readonly queuePrefix: string;
  readonly logLevel: LogLevel;
  /** Variables that are named like Drover's and that nothing reads: misspelt ones, most likely. */
  readonly unreadVariables: readonly string[];
  /** Undefined if no spans are exported. */
  readonly traces: TraceSettings | undefined;
  /** Variables of OpenTelemetry that ask for what there is not, with what there is. */
  readonly unheeded: Readonly<Record<string, string>>;
  readonly shutdownGraceMs: number;
  /** Connections of one process to Postgres for requests and runs; a few more are used beside them. */
  readonly poolSize: number;
}

/** Reads and checks the environment. An empty variable is unset. @throws ConfigError for the first mistake. */
export function loadConfig(env: Environment = process.env): Config {
  const databaseUrl = readDatabaseUrl(env, 'DATABASE_URL');
  const databasePoolUrl = readDatabaseUrl(env, 'DATABASE_POOL_URL');
  if (databasePoolUrl !== undefined && databaseUrl === undefined) {
    const expected = 'DATABASE_URL too, which leads to the database itself';
    throw new ConfigError('DATABASE_POOL_URL', 'is set without DATABASE_URL', expected);
  }
  const redisUrl = readRedisUrl(env);
  if (redisUrl !== undefined && databaseUrl === undefined) {
    throw new ConfigError('REDIS_URL', 'is set without DATABASE_URL', 'both of them, or only DATABASE_URL, or neither');
  }
  const mode = redisUrl !== undefined ? 'full' : databaseUrl !== undefined ? 'postgres' : 'embedded';
  const secretKeys = readList(env, 'DROVER_SECRET_KEY');
  if (mode !== 'embedded' && secretKeys.length === 0) {
    throw new ConfigError('DROVER_SECRET_KEY', 'is not set', 'a secret of your own, since DATABASE_URL is set');
  }
  return Object.freeze({
    mode,
    databaseUrl,
    databasePoolUrl,
    redisUrl,
    dataDir: readDataDir(env),
    fileStore: readFileStore(env, mode),
    port: readPort(env, 'PORT', 3000),
    host: read(env, 'HOST') ?? '127.0.0.1',
    workerPort: read(env, 'DROVER_WORKER_PORT') === undefined ? undefined : readPort(env, 'DROVER_WORKER_PORT', 0),
    corsOrigins: readOrigins(env),
    apiKey: readKey(env, 'DROVER_API_KEY'),
    secretKeys,
    ...readModelSettings(env),
    ...readQueues(env, mode),
    egressAllow: readEgressAllow(env),
    stdioCommands: readStdioCommands(env),
    leaseMs: readInteger(env, 'DROVER_LEASE_MS', { fallback: 30_000, min: 100, max: 3_600_000 }),
    heartbeatTimeoutMs: readInteger(env, 'DROVER_HEARTBEAT_TIMEOUT_MS', {
      fallback: 30_000,
      min: 100,
      max: 86_400_000,
    }),
    runOutputBytes: readInteger(env, 'DROVER_RUN_OUTPUT_BYTES', {
      fallback: LIMITS.runOutputBytes,
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
    }),
    queuePrefix: readQueuePrefix(env),
    logLevel: readLogLevel(env),
    unreadVariables: unreadVariables(env, { prefix: 'DROVER_', known: VARIABLES }),
    ...readTraceSettings(env),
    shutdownGraceMs: readInteger(env, 'DROVER_SHUTDOWN_MS', { fallback: 25_000, min: 0, max: 3_600_000 }),
    poolSize: readInteger(env, 'DROVER_POOL_SIZE', { fallback: 20, min: 1, max: 1000 }),
  } satisfies Config);
}

/** The configuration of a process beside others. @throws ConfigError also where they would share no database. */
export function loadSharedConfig(env: Environment = process.env): Config {
  const config = loadConfig(env);
  if (config.mode === 'embedded') {
    const expected = 'the Postgres that API and workers share (without it, npm start runs both in one process)';
    throw new ConfigError('DATABASE_URL', 'is not set', expected);
  }
  return config;
}

/** What a program on somebody's desk needs to find a service that runs, or its data. */
export interface ClientConfig {
  /** Where the service was said to be. */
  readonly url: string | undefined;
  /** Where it is if nobody has said anything. */
  readonly defaultUrl: string;
  readonly apiKey: string | undefined;
  /** An absolute path, or `memory:`. */
  readonly dataDir: string;
  readonly embedded: boolean;
}

/** Reads the part of the environment that clients use. @throws ConfigError for the first mistake. */
export function loadClientConfig(env: Environment = process.env): ClientConfig {
  const port = readPort(env, 'PORT', 3000);
  return {
    url: readHttpUrl(env, 'DROVER_URL')?.replace(/\/+$/, ''),
    defaultUrl: `http://127.0.0.1:${port}`,
    apiKey: readKey(env, 'DROVER_API_KEY'),
    dataDir: readDataDir(env),
    embedded: readDatabaseUrl(env, 'DATABASE_URL') === undefined,
  };
}

const ENCODED = 'with #, /, % and the like in a password as %23, %2F, %25';

function readDatabaseUrl(env: Environment, name: 'DATABASE_URL' | 'DATABASE_POOL_URL'): string | undefined {
  const value = read(env, name);
  // The value may hold a password, so it is not repeated. Where the host is missing a socket is in `?host=`.
  if (
    value !== undefined &&
    !(/^postgres(ql)?:\/\/\S+$/.test(value) && URL.canParse(value.replace('@/', '@socket/')))
  ) {
    const expected =
      'postgres://user:password@host:5432/database, with #, /, ? and the like in a password as %23, %2F, %3F';
    throw new ConfigError(name, 'is not a Postgres URL', expected);
  }
  return value;
}

function readRedisUrl(env: Environment): string | undefined {
  const value = read(env, 'REDIS_URL');
  if (value !== undefined && !isRedisUrl(value)) {
    const expected = `redis://host:6379 or rediss://user:password@host:6379/0, ${ENCODED}`;
    throw new ConfigError('REDIS_URL', 'is not a Redis URL', expected);
  }
  return value;
}

/** A % that encodes nothing is one of a password; a path is the number of a database. */
function isRedisUrl(value: string): boolean {
  if (!/^rediss?:\/\/([^%]|%[\da-f]{2})*$/i.test(value) || !URL.canParse(value)) return false;
  return /^(\/\d*)?$/.test(new URL(value).pathname);
}

function readDataDir(env: Environment): string {
  const value = read(env, 'DROVER_DATA_DIR') ?? './.drover';
  if (/^memory:(\/\/)?$/.test(value)) return 'memory:';
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(value)) {
    throw new ConfigError('DROVER_DATA_DIR', `is ${quote(value)}`, 'a directory, or memory: to keep nothing');
  }
  // In quotes, or in a file, no shell has put the home directory in its place.
  if (value.startsWith('~')) {
    throw new ConfigError('DROVER_DATA_DIR', `is ${quote(value)}`, 'a path without ~, which only a shell knows');
  }
  return resolve(value);
}

function readFileStore(env: Environment, mode: Config['mode']): Config['fileStore'] {
  const value = read(env, 'DROVER_FILES_URL');
  if (value === undefined) {
    const dataDir = readDataDir(env);
    return mode === 'embedded' && dataDir !== 'memory:' ? { kind: 'file', path: join(dataDir, 'files') } : undefined;
  }
  const address = parseFilesUrl(value);
  // The value may hold a key, so it is not repeated.
  if (!address) {
    const expected = 'file:PATH, or s3://BUCKET/PREFIX?endpoint=https://host&region=name';
    throw new ConfigError('DROVER_FILES_URL', 'is no place for files', expected);
  }
  return address.kind === 'file' ? { ...address, path: resolve(address.path) } : address;
}

function readQueues(env: Environment, mode: Config['mode']): Pick<Config, 'queues' | 'concurrency'> {
  const concurrency = defaultConcurrency(mode);
  for (const [queue, limit] of readAssignments(env, 'DROVER_CONCURRENCY')) {
    const chosen = queue === undefined ? QUEUE_NAMES : [queue];
    for (const name of chosen) concurrency[name] = limit ?? concurrency[name];
  }
  const served = new Set<QueueName>();
  for (const [queue, limit] of readAssignments(env, 'DROVER_QUEUES')) {
    if (queue === undefined) continue;
    served.add(queue);
    concurrency[queue] = limit ?? concurrency[queue];
  }
  // In 0.1.0 sending webhooks was maintenance: who has said who serves that has said who sends.
  if (served.has('maintenance')) served.add('webhooks').add('titles');
  const queues = QUEUE_NAMES.filter((name) => served.size === 0 || served.has(name));
  return { queues: Object.freeze(queues), concurrency: Object.freeze(concurrency) };
}

function defaultConcurrency(mode: Config['mode']): Record<QueueName, number> {
  const place = mode === 'embedded' ? 'embedded' : 'services';
  const entries = CONTRACTS.map(({ name, concurrency }) => [name, concurrency[place]]);
  return Object.fromEntries(entries) as Record<QueueName, number>;
}

/** Both variables take `queue` and `queue=number`; a bare number, for all queues, is DROVER_CONCURRENCY's alone. */
function readAssignments(
  env: Environment,
  variable: 'DROVER_QUEUES' | 'DROVER_CONCURRENCY',
): [QueueName | undefined, number | undefined][] {
  const entries = readList(env, variable);
  const given = read(env, variable);
  if (given !== undefined && entries.length === 0)
    throw new ConfigError(variable, `is ${quote(given)}`, 'an entry, or nothing');
  const assignments = entries.map((entry): [QueueName | undefined, number | undefined] => {
    const [key = '', value, ...rest] = entry.split('=').map((part) => part.trim());
    const limits = { min: 1, max: 10_000, entry };
    if (variable === 'DROVER_CONCURRENCY' && value === undefined) {
      if (/^\d+$/.test(key)) return [undefined, parseInteger(variable, key, limits)];
      throw new ConfigError(variable, `has ${quote(entry)}`, 'a number, or a list as in turns=50,tool-calls=100');
    }
    const queue = QUEUE_NAMES.find((name) => name === key);
    if (queue === undefined || rest.length > 0) {
      throw new ConfigError(variable, `has ${quote(entry)}`, `names among ${QUEUE_NAMES.join(', ')}`);
    }
    return [queue, value === undefined ? undefined : parseInteger(variable, value, limits)];
  });
  expectOnce(
    variable,
    assignments.map(([queue]) => queue ?? 'all queues'),
  );
  return assignments;
}

/** As browsers send them in `Origin`: lower-case, without a path or a default port. */
function readOrigins(env: Environment): readonly string[] {
  const origins = readList(env, 'DROVER_CORS_ORIGINS');
  const isOrigin = (entry: string) => /^https?:/.test(entry) && URL.canParse(entry) && new URL(entry).origin === entry;
  const wrong = origins.find((entry) => entry !== '*' && !isOrigin(entry));
  if (wrong !== undefined) {
    const expected = 'origins separated by commas, as in https://app.example,http://localhost:5173, or *';
    throw new ConfigError('DROVER_CORS_ORIGINS', `has ${quote(wrong)}`, expected);
  }
  return origins;
}

function readEgressAllow(env: Environment): readonly string[] {
  const entries = readList(env, 'DROVER_EGRESS_ALLOW');
  const wrong = entries.find((entry) => !/^[\w.:[\]-]+(\/\d{1,3})?$/.test(entry) || !isAddressRule(entry));
  if (wrong !== undefined) {
    const expected = 'hosts or CIDRs separated by commas, without wildcards, as in db.internal,10.0.0.0/8';
    throw new ConfigError('DROVER_EGRESS_ALLOW', `has ${quote(wrong)}`, expected);
  }
  return entries;
}

function readStdioCommands(env: Environment): readonly string[] {
  const commands = readList(env, 'DROVER_STDIO_COMMANDS');
  // A folder may have a space in its name; what is looked for in PATH has none.
  const wrong = commands.find((entry) => /^[^\s/\\]+\s/.test(entry));
  if (wrong !== undefined) {
    const expected = 'commands without their arguments, separated by commas, as in npx,/opt/my tools/server';
    throw new ConfigError('DROVER_STDIO_COMMANDS', `has ${quote(wrong)}`, expected);
  }
  return commands;
}

function readQueuePrefix(env: Environment): string {
  const value = read(env, 'DROVER_QUEUE_PREFIX') ?? 'drover';
  // BullMQ joins its keys with colons; braces are a Redis Cluster hash tag, which keeps all queues in one slot.
  if (!/^[\w.{}-]{1,64}$/.test(value)) {
    throw new ConfigError(
      'DROVER_QUEUE_PREFIX',
      `is ${quote(value)}`,
      'up to 64 letters, digits, underscores, dots, hyphens or {…}',
    );
  }
  return value;
}

function readLogLevel(env: Environment): LogLevel {
  const value = (read(env, 'LOG_LEVEL') ?? 'info').toLowerCase();
  const level = LOG_LEVELS.find((name) => name === value);
  if (level === undefined) throw new ConfigError('LOG_LEVEL', `is ${quote(value)}`, LOG_LEVELS.join(', '));
  return level;
}
