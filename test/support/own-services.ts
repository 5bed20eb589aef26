/** A Postgres and a Redis that a test may stop, kill and flush: `scripts/services.sh` in a directory of its own. */
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';

const run = promisify(execFile);

export interface OwnServices {
  databaseUrl: string;
  redisUrl: string;
  /** As in a crash: what was not committed is gone. */
  crashPostgres: () => Promise<void>;
  /** What its append-only file has, it will have again. */
  stopRedis: () => Promise<void>;
  flushRedis: () => Promise<void>;
  /** Starts what does not run, on the same ports and data. */
  start: () => Promise<void>;
  close: () => Promise<void>;
}

/** Starts both; undefined if this machine does not have the servers. It installs nothing. */
export async function startOwnServices(): Promise<OwnServices | undefined> {
  if (!(await areInstalled())) return undefined;
  const dir = await mkdtemp(join(tmpdir(), 'drover-services-'));
  // For root the servers run as another user.
  await chmod(dir, 0o755);
  const script = async (command: string) => (await run('scripts/services.sh', [command, dir])).stdout;
  await script('up');
  const env = await script('env');
  const read = (name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(env)?.[1] ?? '';
  const data = /^DATA=(.*)$/m.exec(await readFile(join(dir, 'state'), 'utf8'))?.[1] ?? dir;
  const [databaseUrl, redisUrl] = [read('DATABASE_URL'), read('REDIS_URL')];
  return {
    databaseUrl,
    redisUrl,
    crashPostgres: () => endServer({ pidFile: join(data, 'postgres', 'postmaster.pid'), url: databaseUrl }, 'SIGQUIT'),
    stopRedis: () => endServer({ pidFile: join(data, 'redis', 'redis.pid'), url: redisUrl }, 'SIGTERM'),
    async flushRedis() {
      const client = new Redis(redisUrl, { maxRetriesPerRequest: 1 });
      await client.flushall();
      client.disconnect();
    },
    start: async () => void (await script('up')),
    async close() {
      await script('down');
      for (const each of new Set([data, dir])) await rm(each, { recursive: true, force: true });
    },
  };
}

async function endServer(server: { pidFile: string; url: string }, signal: NodeJS.Signals): Promise<void> {
  const pid = Number((await readFile(server.pidFile, 'utf8')).split('\n')[0]);
  process.kill(pid, signal);
  // Whether the process exists says little: it may be a zombie.
  const endsAt = Date.now() + 15_000;
  while (await answers(server.url)) {
    if (Date.now() > endsAt) throw new Error(`the server of ${server.pidFile} did not end`);
  }
}

function answers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname);
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

async function areInstalled(): Promise<boolean> {
  const programs = await Promise.all(['redis-server', 'redis-cli'].map(isInPath));
  const [servers, shares] = await Promise.all(['/usr/lib/postgresql', '/usr/share/postgresql'].map(list));
  const hasExtension = await Promise.all(
    (shares ?? []).map(async (version) =>
      (await list(`${version}/extension`)).some((file) => file.endsWith('/vector.control')),
    ),
  );
  return programs.every(Boolean) && (servers ?? []).length > 0 && hasExtension.some(Boolean);
}

function isInPath(program: string): Promise<boolean> {
  return run('which', [program]).then(
    () => true,
    () => false,
  );
}

async function list(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(() => []);
  return names.map((name) => join(dir, name));
}
