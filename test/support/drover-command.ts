/** The command line, for tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { AskedCommand } from './drover-thread.ts';
import { compiledOf, programOf } from './processes.ts';
import { ROOT } from './repository.ts';

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

const ALONE = { PATH: '/usr/bin:/bin', DROVER_DATA_DIR: '/nonexistent/drover' };

/** The command line as it is typed, in a process and an environment of its own. */
export async function drover(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  const child = spawn(process.execPath, [...(await programOf('scripts/drover.ts')), ...args], {
    cwd: ROOT,
    env: { ...ALONE, ...env },
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

/** A line of commands that share a thread: starting a process takes a sixth of a second of a core, a command in a thread a tenth of that at most. */
export function startDroverThread() {
  const started = compiledOf('test/support/drover-thread.ts').then((file) => new Worker(file, { execArgv: [] }));
  return {
    /** Does what `drover` does, for commands that need no process of their own. One at a time. */
    async drover(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
      const thread = await started;
      const asked: AskedCommand = { args, env: { ...ALONE, ...env } };
      thread.postMessage(asked);
      const [ended] = (await once(thread, 'message')) as [Ended];
      return ended;
    },
    close: async () => (await started).terminate(),
  };
}
