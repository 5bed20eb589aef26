import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTestServices } from '../support/database.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { programOf, unbundledOf } from '../support/processes.ts';
import { waitUntil } from '../support/wait-until.ts';

/** A process as the Procfile starts it, with nothing in its environment but this. */
async function startMain(file: string, env: Record<string, string>, program?: readonly string[]) {
  const child = spawn(process.execPath, program ?? (await unbundledOf(file)), {
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

describe('the processes of the Procfile', () => {
  for (const file of ['api/main.ts', 'workers/main.ts', 'scripts/migrate.ts']) {
    it(`refuse to start without DATABASE_URL, with one line and exit code 1, and make no database: ${file}`, async () => {
      const dir = mkdtempSync(join(tmpdir(), 'drover-nowhere-'));
      const dataDir = join(dir, 'data');
      const { child, output, exited } = await startMain(file, { DROVER_DATA_DIR: dataDir, PORT: '0' });
      try {
        await waitUntil('it ends or makes one', () => child.exitCode !== null || existsSync(dataDir));
        child.kill('SIGTERM');
        assert.deepEqual(await exited, [1, null]);
        assert.match(output.err, /^DATABASE_URL is not set: expected [^\n]*npm start[^\n]*\n$/);
        assert.deepEqual([output.out, existsSync(dataDir)], ['', false]);
      } finally {
        child.kill('SIGKILL');
        rmSync(dir, { recursive: true, force: true });
      }
    });
  }
});

describe('a program that takes no arguments', () => {
  for (const file of ['api/main.ts', 'workers/main.ts', 'scripts/migrate.ts', 'scripts/start.ts']) {
    it(`says so, and does nothing: ${file}`, async () => {
      for (const [argument, code] of [
        ['--help', 0],
        ['--port=1', 2],
      ] as const) {
        const program = [...(await programOf(file)), argument];
        const { output, exited } = await startMain(file, { DROVER_DATA_DIR: 'memory:', PORT: '0' }, program);
        assert.deepEqual(await exited, [code, null]);
        assert.match(output.out + output.err, /^This program takes no arguments[^\n]*configuration.md[^\n]*\n$/);
      }
    });
  }
});

describe('the process of the API', () => {
  it('ends with one line and exit code 1 where its configuration is wrong', async () => {
    const { output, exited } = await startMain('api/main.ts', { PORT: 'many' });
    assert.deepEqual(await exited, [1, null]);
    assert.match(output.err, /^PORT is "many": expected [^\n]*\n$/);
    assert.equal(output.out, '');
  });

  it('serves until SIGTERM, then ends with exit code 0', async () => {
    const services = await createTestServices(DOMAIN_MODE);
    const file = DOMAIN_MODE === 'embedded' ? 'scripts/start.ts' : 'api/main.ts';
    const { child, output, exited } = await startMain(file, { ...services.env, PORT: '0' });
    const url = () => /(?:API +|"url":")(http:\/\/[\d.:]+)/.exec(output.out + output.err)?.[1];
    try {
      await waitUntil('it listens', () => url() !== undefined || child.exitCode !== null);
      const answer = await fetch(`${url()}/healthz`);
      assert.equal(answer.status, 200);
      child.kill('SIGTERM');
      assert.deepEqual(await exited, [0, null], output.err);
    } finally {
      child.kill('SIGKILL');
      await services.drop();
    }
  });
});
