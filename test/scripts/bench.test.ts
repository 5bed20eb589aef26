import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { ROOT } from '../support/repository.ts';

describe('The command of the benchmarks', function () {
  this.timeout(120_000);

  // From its source: it is no part of what is built.
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, ['--import', 'tsx', 'bench/main.ts', ...args], { cwd: ROOT }).then(
      ({ stdout }) => ({ code: 0, text: stdout }),
      ({ code, stderr }: { code: number; stderr: string }) => ({ code, text: stderr }),
    );

  it('says what there is to measure, also to whoever asks for what there is not', async () => {
    const [help, unknown] = await Promise.all([run('--help'), run('--only', 'nothing')]);
    assert.deepEqual([help.code, unknown.code], [0, 1]);
    for (const { text } of [help, unknown]) assert.match(text, /^NAME: steps .*\bdeployed\b.*\bmemory-recall\b/m);
    assert.match(unknown.text, /^There is no benchmark "nothing"/);
  });
});
