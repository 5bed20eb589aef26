import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { env } from 'node:process';
import { programOf } from '../support/processes.ts';
import { ROOT } from '../support/repository.ts';

describe('npm run patterns', function () {
  this.timeout(300_000);

  it('draws from runs what docs/patterns.md shows', async () => {
    const child = spawn(process.execPath, await programOf('scripts/draw-patterns.ts'), {
      env: { PATH: env['PATH'] ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let faults = '';
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (faults += chunk.toString()));
    const [code] = (await once(child, 'close')) as [number | null];
    assert.equal(code, 0, output + faults);
    const shown = picturesIn(readFileSync(new URL('docs/patterns.md', ROOT), 'utf8'));
    assert.equal(shown.size, 5);
    assert.deepEqual(picturesIn(output), shown);
  });
});

/** By heading. */
function picturesIn(markdown: string): Map<string, string> {
  const sections = markdown.split(/^## /m).slice(1);
  return new Map(
    sections.map((section) => [/^.*/.exec(section)?.[0] ?? '', /```mermaid\n([\s\S]*?)```/.exec(section)?.[1] ?? '']),
  );
}
