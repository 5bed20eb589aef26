/** What the files of an embedded database do before the log that tells of it is on the disk: nothing. */
import assert from 'node:assert/strict';
import {
  closeSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { existsSync, ftruncateSync, truncateSync, unlinkSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { createLogSync } from '../../db/log-sync.ts';
import { openSyncedFiles, type SyncedFiles } from '../../db/synced-files.ts';

/** What Postgres asks of files, as PGlite's module does it. */
type Files = ReturnType<typeof filesIn>;

interface Stream {
  node: { name: string };
  nfd: number;
}

const LOG = 'pg_wal/000000010000000000000001';
const TABLE = 'base/5/16384';
const PAGE = new Int8Array(8192).fill(1);
/** Can be neither synced nor told of its size: it is of no disk. */
const NO_DISK = '/dev/null';

function filesIn(cluster: string) {
  const realPath = ({ name }: { name: string }) => join(cluster, name);
  return {
    realPath,
    tryFSOperation: (operation: () => void) => operation(),
    node_ops: {
      setattr: (node: { name: string }, { size }: { size?: number }) => truncateSync(realPath(node), size),
      rename: (node: { name: string }, folder: { name: string }, name: string) =>
        renameSync(realPath(node), join(realPath(folder), name)),
      unlink: (folder: { name: string }, name: string) => unlinkSync(join(realPath(folder), name)),
    },
    stream_ops: {
      setattr: ({ nfd }: Stream, { size }: { size?: number }) => ftruncateSync(nfd, size),
      write: ({ nfd }: Stream, buffer: Int8Array, ...where: [number, number, number]) =>
        writeSync(nfd, buffer, ...where),
      close: ({ nfd }: Stream) => closeSync(nfd),
      fsync: (_stream: Stream) => undefined,
    },
  };
}

describe('Files of an embedded database', () => {
  let cluster: string;
  let files: Files;
  let synced: SyncedFiles;
  let failures: unknown[];
  let table: Stream;
  beforeEach(async () => {
    cluster = mkdtempSync(join(tmpdir(), 'drover-test-'));
    for (const folder of ['base/5', 'pg_wal']) mkdirSync(join(cluster, folder), { recursive: true });
    for (const name of [TABLE, LOG]) writeFileSync(join(cluster, name), PAGE);
    failures = [];
    synced = await openSyncedFiles(cluster, (error) => void failures.push(error));
    files = filesIn(cluster);
    const { emscriptenOpts } = await synced.files.init({} as PGlite, {});
    const watch = emscriptenOpts.preRun?.[0] as (module: unknown) => void;
    watch({ FS: { filesystems: { NODEFS: files } } });
    table = { node: { name: TABLE }, nfd: openSync(join(cluster, TABLE), 'r+') };
  });
  afterEach(() => rmSync(cluster, { recursive: true, force: true }));

  const sizeOf = (name: string) => statSync(join(cluster, name)).size;
  /** Postgres is told that this is synced, and it is not yet. */
  const writeLog = (path = join(cluster, LOG)) => {
    const nfd = openSync(path, 'r+');
    files.stream_ops.fsync({ node: { name: LOG }, nfd });
    return nfd;
  };

  /** By what it does; each of them after the log, and none where that cannot be synced. */
  const ACTS: Record<string, (name: string) => void> = {
    'writes a page': (name) => {
      files.stream_ops.write({ ...table, node: { name } }, new Int8Array(8192).fill(2), 0, 8192, 0);
    },
    'cuts an open file': (name) => files.stream_ops.setattr({ ...table, node: { name } }, { size: 0 }),
    'cuts a file': (name) => files.node_ops.setattr({ name }, { size: 0 }),
    'renames a file': (name) => files.node_ops.rename({ name }, { name: 'base' }, 'elsewhere'),
    'removes a file': (name) => files.node_ops.unlink({ name: join(name, '..') }, '16384'),
    'syncs a file': (name) => files.stream_ops.fsync({ ...table, node: { name } }),
  };
  for (const [does, act] of Object.entries(ACTS)) {
    it(`${does} only after the log that tells of it is on the disk`, async () => {
      writeLog(NO_DISK);
      assert.throws(() => act(TABLE), { code: 'EINVAL' });
      assert.deepEqual(new Int8Array(readFileSync(join(cluster, TABLE))), PAGE);
      assert.equal(failures.length, 1);
      await assert.rejects(synced.settle(), { code: 'EINVAL' }, 'nobody is told later that it is there');
    });

    it(`${does} where the log can be synced, which is over by then`, () => {
      const log = writeLog();
      act(TABLE);
      // Nothing is left to wait for: the next page is written although the log could not be synced any more.
      closeSync(log);
      files.stream_ops.write(table, PAGE, 0, 8192, 8192);
      assert.deepEqual(failures, []);
    });
  }

  it('syncs no log for its own files, for those that no start reads, and for empty pages by which a table grows', () => {
    writeLog(NO_DISK);
    writeFileSync(join(cluster, 'pg_wal/archived'), PAGE);
    files.node_ops.unlink({ name: 'pg_wal' }, 'archived');
    files.stream_ops.write(table, new Int8Array(8192), 0, 8192, 8192);
    assert.equal(sizeOf(TABLE), 16_384);
    assert.ok(!existsSync(join(cluster, 'pg_wal/archived')));
    assert.deepEqual(failures, []);
  });

  it('closes a log file that is not synced yet once it is, and any other at once', async () => {
    const log = writeLog();
    files.stream_ops.close({ node: { name: LOG }, nfd: log });
    assert.ok(isOpen(log));
    files.stream_ops.close(table);
    assert.ok(!isOpen(table.nfd));
    await synced.settle();
    assert.ok(!isOpen(log));
  });
});

describe('The sync of a log', () => {
  const path = join(tmpdir(), `drover-test-log-${process.pid}`);
  beforeEach(() => writeFileSync(path, PAGE));
  afterEach(() => rmSync(path));
  const create = () => {
    const failures: unknown[] = [];
    return { log: createLogSync((error) => void failures.push(error)), failures };
  };

  it('keeps a file open that a sync under way uses, also where everything has been synced meanwhile', async () => {
    const { log } = create();
    const file = openSync(path, 'r+');
    log.defer(file);
    const settled = log.settle();
    await Promise.resolve();
    log.settleNow();
    log.release(file, () => closeSync(file));
    assert.ok(!log.isBehind());
    assert.ok(isOpen(file));
    await settled;
    assert.ok(!isOpen(file));
  });

  it('fails once, and for all who come later', async () => {
    const { log, failures } = create();
    const bad = openSync(NO_DISK, 'r+');
    log.defer(bad);
    assert.throws(log.settleNow, { code: 'EINVAL' });
    // What was lost counts as written by now: under the same number is a file that can be synced.
    closeSync(bad);
    const good = openSync(path, 'r+');
    assert.equal(good, bad);
    assert.throws(log.settleNow, { code: 'EINVAL' });
    await assert.rejects(log.settle(), { code: 'EINVAL' });
    assert.equal(failures.length, 1);
    closeSync(good);
  });
});

function isOpen(file: number): boolean {
  try {
    fstatSync(file);
    return true;
  } catch {
    return false;
  }
}
