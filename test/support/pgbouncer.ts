/** A PgBouncer of a test's own, in transaction mode, before the Postgres of the tests. */
import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '../../scripts/kit/child-process.ts';
import { query } from './template.ts';
import { waitUntil } from './wait-until.ts';

/** Whether this machine has one; `scripts/services.sh` installs it where it can. */
export const HAS_PGBOUNCER = spawnSync('pgbouncer', ['--version']).status === 0;

export interface PgBouncer {
  /** Of the database, as a login that is a member of drover_app alone. */
  url: string;
  /** The name of that login. */
  login: string;
  close: () => Promise<void>;
}

/** Starts one that has so many connections to the database of `databaseUrl`, and makes a login for it. */
export async function startPgBouncer(databaseUrl: string, connections: number): Promise<PgBouncer> {
  const { hostname, port, pathname } = new URL(databaseUrl);
  const [login, password] = [`drover_pool_${randomUUID().replaceAll('-', '')}`, randomUUID()];
  await query(databaseUrl, `create role ${login} login password '${password}' in role drover_app`);
  const limits = { statement_timeout: '30s', idle_in_transaction_session_timeout: '15s' };
  const defaults = { timezone: 'UTC', jit: 'off', ...limits };
  for (const [name, value] of Object.entries(defaults)) {
    await query(databaseUrl, `alter role ${login} set ${name} = '${value}'`);
  }

  const folder = await mkdtemp(join(tmpdir(), 'drover-pgbouncer-'));
  // Root may not run it, so another user must get at its files.
  await chmod(folder, 0o755);
  const [users, settings] = [join(folder, 'users.txt'), join(folder, 'pgbouncer.ini')];
  const ownPort = await freePort();
  await writeFile(users, `"${login}" "${password}"\n`);
  await writeFile(
    settings,
    `[databases]
* = host=${hostname} port=${port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${ownPort}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${users}
pool_mode = transaction
default_pool_size = ${connections}
max_client_conn = 200
server_login_retry = 1
`,
  );
  const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const child = spawn('pgbouncer', ['-q', ...user, settings], { stdio: ['ignore', 'ignore', 'pipe'] });
  let output = '';
  child.stderr.on('data', (part) => (output += String(part)));
  const kill = () => void child.kill('SIGKILL');
  process.once('exit', kill);
  const close = async () => {
    process.off('exit', kill);
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined;
    child.kill('SIGKILL');
    await ended;
    await rm(folder, { recursive: true, force: true });
    await query(databaseUrl, `drop role ${login}`);
  };
  const url = `postgres://${login}:${password}@127.0.0.1:${ownPort}${pathname}`;
  try {
    await waitUntil('PgBouncer', async () => {
      if (child.exitCode !== null) throw new Error(`PgBouncer has ended: ${output}`);
      return query(url, 'select 1').then(
        () => true,
        () => false,
      );
    });
  } catch (error) {
    await close();
    throw error;
  }
  return { url, login, close };
}
