import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { env } from 'node:process';
import { programOf } from '../support/processes.ts';

describe('npm run demo:memory', function () {
  this.timeout(300_000);

  it('remembers, corrects and forgets over three days without any model, and says why it recalls', async () => {
    const child = spawn(process.execPath, await programOf('scripts/demo-memory.ts'), {
      env: { PATH: env['PATH'] ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    assert.equal(code, 0, output);
    const [first = '', second = '', third = ''] = output.split(/^2026-03-\d\d$/m).slice(1);
    assert.match(first, /recalled nothing[\s\S]*learnt +I prefer trains to planes\./);
    assert.match(second, /recalled I live in Oslo\. +\(0\.\d+: .*lexical[\s\S]*changed +I live in Bergen now\. +\(/);
    assert.match(second, /would go +My locker/);
    assert.match(third, /always: a preference[\s\S]*I live in Bergen now/);
    assert.doesNotMatch(third, /pelican/);
  });
});
