import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { loadConfig } from '../../config.ts';
import { bannerOf } from '../../scripts/run-everything.ts';
import { ROOT } from '../support/repository.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('npm start', function () {
  this.timeout(600_000);

  it('prints a curl that answers when it is pasted, at each start, and ends with all that it has started on a signal', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'drover-test-start-'));
    try {
      const fromSupervisor = (npm: number) => process.kill(npm, 'SIGTERM');
      const first = await startAndPaste(dir, fromSupervisor);
      assert.match(first.answer.output.message, /\b413\b/);
      assert.equal(first.answer.output.status, 'complete');
      assert.ok(first.banner.includes(`  API          ${first.url}`), first.banner);
      assert.ok(first.banner.includes(`${first.url}/admin/queues`), first.banner);
      assert.match(first.banner, /  model {8}offline \(a planner for trials/);
      // To all processes of the terminal, as npm's own group is here.
      const fromCtrlC = (npm: number) => process.kill(-npm, 'SIGINT');
      const second = await startAndPaste(dir, fromCtrlC);
      assert.match(second.answer.output.message, /\b413\b/);
      assert.deepEqual([second.key, second.run], [first.key, first.run], 'it goes on with the run that is open');
    } finally {
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it('prints the key that it has made, and not one of the environment', () => {
    const started = { url: 'http://127.0.0.1:3000', apiKey: 'drv_of_this_test', model: 'offline', runId: 'r' };
    const made = bannerOf(loadConfig({}), started);
    assert.match(made, /^  key {10}drv_of_this_test\n.*^  curl .*"Authorization: Bearer drv_of_this_test" /ms);
    const given = bannerOf(loadConfig({ DROVER_API_KEY: started.apiKey }), started);
    assert.match(given, /^  key {10}the one in DROVER_API_KEY.*^  curl .*"Authorization: Bearer \$DROVER_API_KEY" /ms);
    assert.ok(!given.includes(started.apiKey), given);
  });
});

/** Ends with the signal that `end` sends to npm, which has to end with 0. */
async function startAndPaste(dir: string, end: (npm: number) => void) {
  const env = { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, DROVER_DATA_DIR: dir, PORT: '0' };
  const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'ignore', 'pipe'], detached: true });
  const pid = npm.pid ?? 0;
  let banner = '';
  let closed = false;
  npm.stderr.on('data', (chunk: Buffer) => (banner += chunk.toString()));
  // Nobody has its output open any more.
  npm.once('close', () => (closed = true));
  try {
    const line = () => /^ +(curl .*)\n/m.exec(banner)?.[1];
    await waitUntil('the banner', () => line() !== undefined || closed, 240_000);
    const command = line() ?? '';
    const [, url, run, key] = /^curl -s (http:\S+)\/v1\/runs\/(\S+)\/turns .*Bearer (\S+)"/.exec(command) ?? [];
    const { stdout } = await promisify(execFile)('bash', ['-c', command]);
    const answer = JSON.parse(stdout) as { output: { message: string; status: string } };
    end(pid);
    await waitUntil('the end of all processes', () => closed, 60_000);
    assert.equal(npm.exitCode, 0, banner);
    return { banner, url, run, key, answer };
  } finally {
    if (!closed) process.kill(-pid, 'SIGKILL');
  }
}
