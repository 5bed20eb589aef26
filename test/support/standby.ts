/** A standby of a test's own, which follows another Postgres. */
import { execFile, spawnSync } from 'node:child_process';
import { chmod, chown, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../../scripts/kit/child-process.ts';
import { query } from './template.ts';

const run = promisify(execFile);

export interface Standby {
  port: number;
  /** It follows nobody any more, and takes writes. */
  promote: () => Promise<void>;
  close: () => Promise<void>;
}

/** Makes one by a copy of the server, whose user may replicate. */
export async function startStandby(serverUrl: string): Promise<Standby> {
  const folder = await mkdtemp(join(tmpdir(), 'drover-standby-'));
  const isRoot = process.getuid?.() === 0;
  if (isRoot) {
    // Root may not run it.
    const id = (flag: string) => Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout);
    await chown(folder, id('-u'), id('-g'));
  }
  await chmod(folder, 0o755);
  const data = join(folder, 'data');
  const { rows } = await query(serverUrl, `select current_setting('server_version_num')::int / 10000 as major`);
  const bin = `/usr/lib/postgresql/${rows[0]?.major}/bin`;
  const start = async (program: string, args: string[]) => {
    const command = [join(bin, program), ...args];
    const [file = '', ...rest] = isRoot ? ['runuser', '-u', 'postgres', '--', ...command] : command;
    await run(file, rest, { cwd: '/' });
  };
  const port = await freePort();
  await start('pg_basebackup', ['-d', serverUrl, '-D', data, '-R', '-c', 'fast']);
  await start('pg_ctl', ['-D', data, '-l', join(folder, 'log'), '-o', `-p ${port}`, '-w', 'start']);
  return {
    port,
    promote: () => start('pg_ctl', ['-D', data, '-w', 'promote']),
    async close() {
      await start('pg_ctl', ['-D', data, '-m', 'immediate', '-w', 'stop']);
      await rm(folder, { recursive: true, force: true });
    },
  };
}
