import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { compiledOf } from '../support/processes.ts';
import { copyEmbeddedTemplate } from '../support/template.ts';

/** Those that a start keeps calling. Node 20 alone optimizes 80, Node 22 20. */
const MOST_OPTIMIZED = 40;

describe('The embedded database', () => {
  it('opens without an optimization of functions that hardly anything calls afterwards', async () => {
    const dataDir = await copyEmbeddedTemplate();
    try {
      const open = `const { openEmbedded } = await import(${JSON.stringify(await compiledOf('db/embedded.ts'))});
const database = await openEmbedded(${JSON.stringify(dataDir)}, {});
await database.close();`;
      const { stdout } = await promisify(execFile)(
        process.execPath,
        ['--trace-wasm-compilation-times', '--input-type=module', '--eval', open],
        { maxBuffer: 16 * 1024 * 1024 },
      );
      const compiledBy = (compiler: string) => stdout.split(`using ${compiler}`).length - 1;
      assert.ok(compiledBy('Liftoff') > 1000, 'V8 says what it compiles');
      assert.ok(compiledBy('TurboFan') < MOST_OPTIMIZED, `${compiledBy('TurboFan')} functions`);
    } finally {
      await rm(dataDir, { recursive: true, force: true });
    }
  });
});
