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

  it('says to whoever asks for what there is not what there is to measure', async () => {
    const { code, text } = await run('--only', 'nothing');
    assert.equal(code, 1);
    assert.match(text, /^There is no benchmark "nothing"/);
    assert.match(text, /^NAME: steps .*\bdeployed\b.*\bmemory-recall\b/m);
  });
});
