/** The torture's services: its own database on given ones, or private ones that end with it. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import pg from 'pg';

/** The two servers started by this torture. */
export interface OwnServices {
  /** Ends Postgres as a crash would, and restarts it. */
  restartPostgres: () => Promise<void>;
  /** Kills Redis and restarts it: unwritten data is lost. */
  restartRedis: () => Promise<void>;
  flushRedis: () => Promise<void>;
}

export interface TestServices {
  databaseUrl: string;
  redisUrl: string | undefined;
  /** Undefined if the services were given. */
  own: OwnServices | undefined;
  /** The folder for logs; `close` removes it unless `keepLogs`. */
  dir: string;
  close: (options: { keepLogs: boolean }) => Promise<void>;
}

const SCRIPT = fileURLToPath(new URL('../services.sh', import.meta.url));
const run = promisify(execFile);

/** Creates the database, and starts services if none are given. Throws if either fails. */
export async function openTestServices(given: {
  databaseUrl: string | undefined;
  redisUrl: string | undefined;
  mode: 'full' | 'postgres';
}): Promise<TestServices> {
  const dir = mkdtempSync(join(tmpdir(), 'drover-torture-'));
  const services = given.databaseUrl === undefined ? await startServices(dir) : undefined;
  const serverUrl = given.databaseUrl ?? services?.databaseUrl ?? '';
  const redisUrl = given.mode === 'full' ? (given.redisUrl ?? services?.redisUrl) : undefined;
  const name = `drover_torture_${process.pid}_${Date.now()}`;
  await onServer(serverUrl, `create database ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return {
    databaseUrl: url.href,
    redisUrl,
    own: services?.own,
    dir,
    async close({ keepLogs }) {
      if (services) await services.stop();
      else await onServer(serverUrl, `drop database if exists ${name} with (force)`);
      if (!keepLogs) await rm(dir, { recursive: true, force: true });
    },
  };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

interface StartedServices {
  databaseUrl: string;
  redisUrl: string;
  own: OwnServices;
  stop: () => Promise<void>;
}

async function startServices(parent: string): Promise<StartedServices> {
  // Postgres may run as another user, who needs access to its data.
  await run('chmod', ['711', parent]);
  const dir = join(parent, 'services');
  const guard = spawnGuard(dir);
  try {
    await run(SCRIPT, ['up', dir]);
    const { stdout } = await run(SCRIPT, ['env', dir]);
    const urls = Object.fromEntries(stdout.split('\n').map((line) => line.split(/=(.*)/s, 2)));
    const { DATABASE_URL: databaseUrl = '', REDIS_URL: redisUrl = '' } = urls as Record<string, string>;
    return { databaseUrl, redisUrl, own: ownServices(dir, redisUrl), stop: guard.end };
  } catch (error) {
    await guard.end();
    throw error;
  }
}

/** Stops the services when this process ends in any way: it waits, in a session of its own, for the end of its input. */
function spawnGuard(dir: string): { end: () => Promise<void> } {
  const script = 'cat >/dev/null; "$0" down "$1"; rm -rf "$1"';
  const guard = spawn('/bin/sh', ['-c', script, SCRIPT, dir], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  const ended = once(guard, 'exit');
  return {
    async end() {
      guard.stdin.end();
      await ended;
    },
  };
}

function ownServices(dir: string, redisUrl: string): OwnServices {
  const data = /^DATA=(.*)$/m.exec(readFileSync(join(dir, 'state'), 'utf8'))?.[1] ?? dir;
  const restart = async (pidFile: string, signal: NodeJS.Signals) => {
    const pid = Number(readFileSync(join(data, pidFile), 'utf8').split('\n', 1)[0]);
    process.kill(pid, signal);
    await untilGone(pid);
    await run(SCRIPT, ['up', dir]);
  };
  return {
    // SIGQUIT is Postgres's "immediate": no clean shutdown, recovery from the WAL at the next start.
    restartPostgres: () => restart('postgres/postmaster.pid', 'SIGQUIT'),
    restartRedis: () => restart('redis/redis.pid', 'SIGKILL'),
    async flushRedis() {
      const client = new Redis(redisUrl, { lazyConnect: true, maxRetriesPerRequest: 1 });
      client.on('error', () => undefined);
      try {
        await client.connect();
        await client.flushall();
      } finally {
        client.disconnect();
      }
    },
  };
}

const GONE_MS = 30_000;

async function untilGone(pid: number): Promise<void> {
  const endsAt = Date.now() + GONE_MS;
  while (isAlive(pid)) {
    if (Date.now() > endsAt) throw new Error(`process ${pid} does not end`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
