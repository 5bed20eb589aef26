import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { programOf } from '../support/processes.ts';
import { waitUntil } from '../support/wait-until.ts';

/** The API's process as the Procfile starts it, with nothing in its environment but this. */
async function startMain(env: Record<string, string>) {
  const child = spawn(process.execPath, await programOf('api/main.ts'), {
    env: { PATH: '/usr/bin:/bin', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { out: '', err: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    output.out += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    output.err += chunk.toString();
  });
  return { child, output, exited: once(child, 'close') };
}

describe('the process of the API', () => {
  it('ends with one line and exit code 1 where its configuration is wrong', async () => {
    const { output, exited } = await startMain({ PORT: 'many' });
    assert.deepEqual(await exited, [1, null]);
    assert.match(output.err, /^PORT is "many": expected [^\n]*\n$/);
    assert.equal(output.out, '');
  });

  it('serves until SIGTERM, then ends with exit code 0', async () => {
    const { child, output, exited } = await startMain({ DROVER_DATA_DIR: 'memory:', PORT: '0' });
    const url = () => /"url":"([^"]+)"/.exec(output.out)?.[1];
    try {
      await waitUntil('it listens', () => url() !== undefined || child.exitCode !== null);
      const answer = await fetch(`${url()}/healthz`);
      assert.equal(answer.status, 200);
      child.kill('SIGTERM');
      assert.deepEqual(await exited, [0, null], output.err);
    } finally {
      child.kill('SIGKILL');
    }
  });
});
