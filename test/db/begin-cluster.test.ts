import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataDirError } from '../../db/data-dir-error.ts';
import { openEmbedded } from '../../db/embedded.ts';
import { compiledOf } from '../support/processes.ts';
import { copyEmbeddedTemplate } from '../support/template.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('A data directory whose database is not whole', () => {
  let parent: string;
  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'drover-cluster-'));
  });
  afterEach(() => rmSync(parent, { recursive: true, force: true }));

  it('is refused, and left as it is, where a restore has broken off before the file that tells a database', async () => {
    const dataDir = await copyEmbeddedTemplate();
    const version = join(dataDir, 'pgdata', 'PG_VERSION');
    rmSync(version);
    const before = readdirSync(dataDir, { recursive: true });
    await assert.rejects(openEmbedded(dataDir, {}), (error) => {
      assert.ok(error instanceof DataDirError);
      assert.ok(error.message.includes(`DROVER_DATA_DIR is ${dataDir}`) && error.message.includes(version));
      return true;
    });
    assert.deepEqual(readdirSync(dataDir, { recursive: true }), before);
    await rm(dataDir, { recursive: true });
  });

  it('is begun again where a process was killed in the middle of making it', async () => {
    const dataDir = join(parent, 'data');
    const open = `const { openEmbedded } = await import(${JSON.stringify(await compiledOf('db/embedded.ts'))});
await openEmbedded(${JSON.stringify(dataDir)}, {});`;
    const child = spawn(process.execPath, ['--input-type=module', '--eval', open], { stdio: 'inherit' });
    const exited = once(child, 'exit');
    await waitUntil('files are there', async () => existsSync(join(dataDir, 'pgdata', 'base')));
    child.kill('SIGKILL');
    await exited;
    // Among the last to come: on a busy machine it may be there before the kill.
    rmSync(join(dataDir, 'pgdata', 'PG_VERSION'), { force: true });
    const database = await openEmbedded(dataDir, {});
    const { rows } = await database.asOwner((client) => client.query('select 42 as answer'));
    assert.deepEqual(rows, [{ answer: 42 }]);
    await database.close();
    assert.deepEqual(readdirSync(dataDir), ['pgdata']);
  });

  it('is made in an empty folder, also the root of a disk', async () => {
    const dataDir = join(parent, 'data');
    mkdirSync(join(dataDir, 'pgdata', 'lost+found'), { recursive: true });
    writeFileSync(join(dataDir, 'pgdata', 'lost+found', 'odd'), '');
    const database = await openEmbedded(dataDir, {});
    await database.close();
    assert.ok(existsSync(join(dataDir, 'pgdata', 'PG_VERSION')));
  });
});
