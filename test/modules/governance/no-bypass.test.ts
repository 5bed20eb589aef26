import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { ROOT } from '../../support/repository.ts';

const FOLDERS = ['api', 'bus', 'core', 'db', 'jobs', 'lib', 'llm', 'modules', 'tools', 'workers'];

const sources = FOLDERS.flatMap((folder) =>
  readdirSync(new URL(`${folder}/`, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `${folder}/${name}`),
);
const filesWith = (pattern: RegExp) =>
  sources.filter((path) => pattern.test(readFileSync(new URL(path, ROOT), 'utf8'))).toSorted();

describe('The way to a tool', () => {
  it('leads through the ledger, in one place for drivers and workers; or is the direct execution of a key that may', () => {
    assert.deepEqual(filesWith(/\btools\.execute\(/), [
      'modules/tool-calls/attempt.ts',
      'modules/tool-calls/execute-tool.ts',
    ]);
    assert.deepEqual(filesWith(/\bimport \{\s+attempt\b/), [
      'modules/runs/driver/run-calls.ts',
      'modules/tool-calls/run-tool-call.ts',
    ]);
  });

  it('knows a call by one key, which is made with its row', () => {
    assert.deepEqual(filesWith(/\bidempotency_key = /), ['modules/runs/driver/request-calls.ts']);
  });

  it('begins where calls are recorded, which is in one place, behind the gate', () => {
    assert.deepEqual(filesWith(/\bnewCalls\.push\(/), ['modules/run-log/run-log.ts']);
    assert.deepEqual(filesWith(/\binsertCall\(/), [
      'modules/run-log/run-log.ts',
      'modules/runs/driver/request-calls.ts',
    ]);
    assert.deepEqual(filesWith(/\bgate\(/), ['modules/governance/gate-call.ts', 'modules/governance/gate.ts']);
  });

  it('is opened once, for the context', () => {
    assert.deepEqual(filesWith(/\bcreateTools\(/), ['modules/platform/open-platform.ts', 'tools/execute-tool.ts']);
  });
});
