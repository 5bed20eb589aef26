import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { transformSync } from 'esbuild';
import { inSources } from './reporter.ts';

describe('The stack of a failure', () => {
  const folder = mkdtempSync(join(tmpdir(), 'drover-test-maps-'));
  after(() => rmSync(folder, { recursive: true }));

  it('names the lines of sources, and leaves alone what has no map', () => {
    const source = 'interface Nothing {\n  left: string;\n}\n\nexport function fail() {\n  throw new Error("no");\n}\n';
    const { code, map } = transformSync(source, { loader: 'ts', sourcemap: true, sourcefile: 'failing.ts' });
    writeFileSync(join(folder, 'failing.js.map'), map);
    const line = code.split('\n').findIndex((text) => text.includes('throw')) + 1;
    const at = (name: string) => `at fail (${pathToFileURL(join(folder, name)).href}:${line}:9)`;
    assert.equal(inSources(at('failing.js')), `at fail (${join(folder, 'failing.ts')}:6:9)`);
    assert.equal(inSources(at('other.js')), at('other.js'));
  });
});
