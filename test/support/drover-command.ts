/** The command line, for tests. */
import { spawn } from 'node:child_process';
import { programOf } from './processes.ts';
import { ROOT } from './repository.ts';

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

/** The command line as it is typed, in a process and an environment of its own. */
export async function drover(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(process.execPath, [...(await programOf('scripts/drover.ts')), ...args], {
    cwd: ROOT,
    env: { PATH: '/usr/bin:/bin', DROVER_DATA_DIR: '/nonexistent/drover', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended: Ended = { code: null, out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => (ended.out += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (ended.err += chunk.toString()));
  ended.code = await new Promise((resolve) => {
    child.on('close', resolve);
  });
  return ended;
}
