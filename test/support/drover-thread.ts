/** A thread for commands of the command line, one after the other, each with an environment and an output of its own. */
import { parentPort } from 'node:worker_threads';
import { runCommand } from '../../scripts/cli/run-command.ts';

export interface AskedCommand {
  args: readonly string[];
  env: Record<string, string>;
}

const written = { out: '', err: '' };
const keep = (to: keyof typeof written) => ({
  write(chunk: string | Uint8Array) {
    written[to] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
    return true;
  },
});
Object.assign(process.stdout, keep('out'));
Object.assign(process.stderr, keep('err'));

parentPort?.on('message', ({ args, env }: AskedCommand) => void run(args, env));

async function run(args: AskedCommand['args'], env: AskedCommand['env']): Promise<void> {
  // A thread's own copy.
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  Object.assign(written, { out: '', err: '' });
  const code = (await runCommand(args)) ?? 0;
  parentPort?.postMessage({ code, ...written });
}
