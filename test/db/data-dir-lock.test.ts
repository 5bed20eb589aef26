import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../config.ts';
import { DataDirLockedError, lockDataDir } from '../../db/data-dir-lock.ts';
import { openDatabase } from '../../db/open-database.ts';
import { createTestServices } from '../support/database.ts';
import { compiledOf } from '../support/processes.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('the lock of the data directory', () => {
  let parent: string;
  let directory: string;
  const children: ChildProcess[] = [];

  beforeEach(() => {
    parent = mkdtempSync(join(tmpdir(), 'drover-lock-'));
    directory = join(parent, 'data');
  });

  afterEach(async () => {
    for (const child of children.splice(0)) await kill(child);
    rmSync(parent, { recursive: true, force: true });
  });

  /** A process that takes the lock, says how it went, and stays. */
  async function holdElsewhere(): Promise<{ child: ChildProcess; said: string }> {
    const module = await compiledOf('db/data-dir-lock.ts');
    const code = `import(${JSON.stringify(module)}).then(async ({ lockDataDir }) => {
      try { console.log((await lockDataDir(${JSON.stringify(directory)})).tookOver ? 'taken over' : 'taken'); }
      catch (error) { console.log(error.name); }
      setInterval(() => {}, 1000);
    });`;
    const child = spawn(process.execPath, ['--eval', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    children.push(child);
    const [chunk] = (await once(child.stdout, 'data')) as [Buffer];
    return { child, said: chunk.toString().trim() };
  }

  async function kill(child: ChildProcess): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  it('makes the directory for its owner alone', async () => {
    const lock = await lockDataDir(directory);
    assert.equal(statSync(directory).mode & 0o777, 0o700);
    assert.equal(lock.tookOver, false);
    lock.release();
  });

  it('says which variable names what can be no directory: a file, what is below one, a place that takes none', async () => {
    mkdirSync(directory, { recursive: true });
    const file = join(directory, 'file');
    writeFileSync(file, '');
    for (const wrong of [file, join(file, 'a', 'b'), '/proc/drover/data'])
      await assert.rejects(lockDataDir(wrong), /^Error: DROVER_DATA_DIR is .* cannot be used as a directory: /);
    rmSync(file);
  });

  it('is free again once it is released, and leaves nothing behind', async () => {
    (await lockDataDir(directory)).release();
    const lock = await lockDataDir(directory);
    assert.equal(lock.tookOver, false);
    lock.release();
    assert.deepEqual(readdirSync(directory), []);
  });

  it('refuses a second holder in the same process and says who has it', async () => {
    const lock = await lockDataDir(directory);
    await assert.rejects(lockDataDir(directory), (error) => {
      assert.ok(error instanceof DataDirLockedError);
      assert.match(error.message, new RegExp(`in use by process ${process.pid} `));
      assert.match(error.message, /DROVER_DATA_DIR/);
      return true;
    });
    lock.release();
  });

  it('refuses while another process holds it, and takes over when that one was killed', async () => {
    const { child, said } = await holdElsewhere();
    assert.equal(said, 'taken');
    await assert.rejects(lockDataDir(directory), new RegExp(`process ${child.pid} `));
    await kill(child);
    const lock = await lockDataDir(directory);
    assert.equal(lock.tookOver, true);
    lock.release();
    assert.deepEqual(readdirSync(directory), []);
  });

  it('is taken over by exactly one of several processes', async () => {
    const { child } = await holdElsewhere();
    await kill(child);
    const said = (await Promise.all([1, 2, 3, 4].map(holdElsewhere))).map((each) => each.said);
    assert.deepEqual(said.toSorted(), ['DataDirLockedError', 'DataDirLockedError', 'DataDirLockedError', 'taken over']);
  });

  /** Changes what the lock says of its holder. */
  const pretend = (change: Record<string, string>) => {
    const path = join(directory, 'lock');
    const holder = JSON.parse(readFileSync(path, 'utf8')) as object;
    writeFileSync(path, JSON.stringify({ ...holder, ...change }));
  };
  /** As if the holder had shown no life for that long. */
  const silentFor = (seconds: number) => {
    const at = Date.now() / 1000 - seconds;
    for (const name of readdirSync(directory)) utimesSync(join(directory, name), at, at);
  };

  it('knows a process that has the same pid by chance for dead', async () => {
    await lockDataDir(directory);
    pretend({ startTime: '1' });
    const lock = await lockDataDir(directory);
    assert.equal(lock.tookOver, true);
    lock.release();
  });

  for (const [where, change] of [
    ['in another container', { pidNamespace: 'pid:[1]', pid: '1' }],
    ['on another machine, or of another boot', { bootId: 'another' }],
  ] as const) {
    it(`refuses while a process ${where} shows that it lives, whatever its pid is here`, async () => {
      const lock = await lockDataDir(directory);
      pretend(change);
      const said: string[] = [];
      const locking = { onWait: (message: string) => void said.push(message) };
      const refused = assert.rejects(lockDataDir(directory, locking), DataDirLockedError);
      writeFileSync(join(directory, 'lock.beat'), '');
      await refused;
      assert.match(said.join('\n'), /^the data directory .* was last in use by process .*: waiting up to 15 s [^\n]*$/);
      lock.release();
    });

    it(`takes over from a process ${where} that has been silent`, async () => {
      await lockDataDir(directory);
      pretend(change);
      silentFor(20);
      const lock = await lockDataDir(directory);
      assert.equal(lock.tookOver, true);
      lock.release();
      assert.deepEqual(readdirSync(directory), []);
    });
  }

  it('tells a holder that another one has taken it, who had stood still for too long', async () => {
    const lost = new Promise<void>((resolve) => void lockDataDir(directory, { onLost: resolve }));
    await waitUntil('it is held', async () => existsSync(join(directory, 'lock')));
    pretend({ token: 'of another' });
    await lost;
  });

  it('takes over a lock that cannot be read, and one whose taking over was cut short', async () => {
    (await lockDataDir(directory)).release();
    writeFileSync(join(directory, 'lock'), '');
    writeFileSync(join(directory, 'lock.unreadable'), '{"token":"half-way"');
    const lock = await lockDataDir(directory);
    assert.equal(lock.tookOver, true);
    lock.release();
    assert.deepEqual(readdirSync(directory), []);
  });

  it('does not take away the lock of one who came later', async () => {
    const first = await lockDataDir(directory);
    rmSync(join(directory, 'lock'));
    const second = await lockDataDir(directory);
    first.release();
    await assert.rejects(lockDataDir(directory), DataDirLockedError);
    second.release();
  });

  it('guards an embedded database, which keeps what was written and tells a take-over', async () => {
    const services = await createTestServices('embedded');
    const config = loadConfig(services.env);
    directory = config.dataDir;
    const database = await openDatabase(config);
    await assert.rejects(openDatabase(config), DataDirLockedError);
    await database.asOwner((client) => client.query('create table kept as select 42 as answer'));
    await database.close();
    const { child } = await holdElsewhere();
    await kill(child);
    const again = await openDatabase(config);
    assert.equal(again.tookOverLock, true);
    const { rows } = await again.asOwner((client) => client.query('select answer from kept'));
    assert.deepEqual(rows, [{ answer: 42 }]);
    await again.close();
    await services.drop();
  });
});
