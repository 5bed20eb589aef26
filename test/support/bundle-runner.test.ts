import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { compiledOf } from './processes.ts';

describe('servers that tests start', () => {
  it('begin with what V8 has compiled of them before, in any process that has no flags of its own', async () => {
    const [runner, servers] = await Promise.all(
      ['test/support/bundle-runner.ts', 'bundled/servers.cjs'].map(compiledOf),
    );
    const look = `console.log((await import(${JSON.stringify(runner)})).takesCompiled(${JSON.stringify(servers)}))`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', look]);
    assert.equal(stdout, 'true\n');
  });
});
