import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Redis } from 'ioredis';
import pino from 'pino';
import { loadConfig } from '../../../config.ts';
import { openPlatform } from '../../../modules/platform/open-platform.ts';
import { openDatabase } from '../../../db/open-database.ts';
import { createMigratedDatabase, createTestDatabase, createTestServices } from '../../support/database.ts';
import { MODES, TEST_REDIS_URL } from '../../support/modes.ts';
import { openServiceProxy } from '../../../scripts/kit/service-proxy.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { dropQueue, fillDiskAtNextStart } from '../../support/queries/postgres.ts';

/** PGlite is never away: only Postgres can be waited for. */
if (MODES.includes('postgres')) {
  describe('opening a platform', () => {
    it('waits for a database that is away instead of ending, and says so', async () => {
      const testDatabase = await createMigratedDatabase();
      const proxy = await openServiceProxy(testDatabase.url);
      await proxy.cut();
      const log: string[] = [];
      const opening = openPlatform(loadConfig({ DATABASE_URL: proxy.url, ...secrets }), {
        log: pino({}, { write: (line: string) => void log.push(line) }),
      });
      await waitUntil(
        'it says twice that it waits',
        () => log.filter((line) => /waiting for it/.test(line)).length > 1,
      );
      await proxy.restore();
      const platform = await opening;
      await platform.context.db.ping(1000);
      await platform.close();
      await proxy.close();
      await testDatabase.drop();
    });

    it('ends where the database lacks migrations, and says what to do', async () => {
      const testDatabase = await createTestDatabase();
      const config = loadConfig({ DATABASE_URL: testDatabase.url, DROVER_SECRET_KEY: 'the tests have no secrets' });
      await assert.rejects(openPlatform(config, { log: pino({ level: 'silent' }) }), /migrat|role/i);
      await testDatabase.drop();
    });

    it('ends where files can never be written, and names the variable', async () => {
      const { proxy, config, close } = await migratedBehindProxy();
      const file = join(await mkdtemp(join(tmpdir(), 'drover-test-')), 'file');
      await writeFile(file, '');
      // On Linux alone there is a folder that takes no others, and says that something is missing.
      const places = [file, join(file, 'below'), ...(process.platform === 'linux' ? ['/proc/nope/files'] : [])];
      for (const path of places) {
        await assert.rejects(openPlatform({ ...config, fileStore: { kind: 'file', path } }, { log: silent }), {
          name: 'ConfigError',
          message: new RegExp(
            `^DROVER_FILES_URL leads to "${path}", which cannot be written \\((ENOTDIR|ENOENT)\\): expected .+\\.$`,
          ),
        });
      }
      await waitUntil('no connection is left', () => proxy.count() === 0);
      await rm(dirname(file), { recursive: true });
      await close();
    });

    it('makes the folder for files where it is missing, and leaves nothing in it', async () => {
      const { config, close } = await migratedBehindProxy();
      const folder = await mkdtemp(join(tmpdir(), 'drover-test-'));
      const path = join(folder, 'some', 'where');
      const open = () => openPlatform({ ...config, fileStore: { kind: 'file', path } }, { log: silent });
      await (await open()).close();
      assert.deepEqual(await readdir(path), []);
      // As a process leaves it that is killed there.
      await writeFile(join(path, '.probe'), '');
      const platforms = await Promise.all([open(), open()]);
      assert.deepEqual(await readdir(path), []);
      for (const platform of platforms) await platform.close();
      await rm(folder, { recursive: true });
      await close();
    });

    it('closes the database and the bus where the queue cannot be opened', async () => {
      const { proxy, config, url, close } = await migratedBehindProxy();
      await dropQueue(url);
      await assert.rejects(openPlatform(config, { log: silent }));
      await waitUntil('no connection is left', () => proxy.count() === 0);
      await close();
    });

    it('closes all the rest where something cannot be closed, and says so', async () => {
      const { proxy, config, close } = await migratedBehindProxy();
      const { lines, log } = capture();
      const platform = await openPlatform(config, { log });
      platform.closers.add('broken', () => Promise.reject(new Error('it is stuck')));
      assert.ok(proxy.count() > 0);
      await platform.close();
      await waitUntil('no connection is left', () => proxy.count() === 0);
      assert.ok(
        lines.some((line) => /closing failed/.test(line) && /it is stuck/.test(line)),
        lines.join(''),
      );
      await close();
    });

    it('says of connections that cannot be closed that closing failed, not that they were lost', async () => {
      const { proxy, config, close } = await migratedBehindProxy();
      const { lines, log } = capture();
      const platform = await openPlatform(config, { log });
      // Held by whoever waits for the answer of a server that is silent.
      proxy.setLatency(600_000);
      const unanswered = platform.context.db.ping(60_000).catch(() => undefined);
      await platform.close();
      const told = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      assert.ok(
        told.some(({ msg, name }) => msg === 'closing failed' && name === 'database'),
        lines.join(''),
      );
      assert.ok(!told.some(({ msg }) => msg === 'database connection lost'), lines.join(''));
      await proxy.cut();
      await unanswered;
      await close();
    });

    it('opens nothing where it is stopped before', async () => {
      const { proxy, config, close } = await migratedBehindProxy();
      await assert.rejects(openPlatform(config, { log: silent, signal: AbortSignal.abort() }), { name: 'AbortError' });
      assert.equal(proxy.count(), 0);
      await close();
    });
  });
}

describe('an embedded platform', () => {
  it('ends where its disk is full, and names the variable and the place', async () => {
    const services = await createTestServices('embedded');
    const config = loadConfig(services.env);
    const database = await openDatabase(config);
    await database.asOwner(fillDiskAtNextStart);
    await database.close();
    const message = new RegExp(
      `^DROVER_DATA_DIR is ${config.dataDir}, in which the database cannot work: no space is left \\(\\d+ MiB are free there\\)\\.$`,
    );
    await assert.rejects(openPlatform(config, { log: silent }), { message });
    await services.drop();
  });
});

if (MODES.includes('full')) {
  describe('a platform on Redis', () => {
    it('closes its connections where what comes after the bus cannot be opened', async () => {
      const { config, redis, close } = await behindRedisProxy();
      const faulty = { ...config, egressAllow: ['http://no.host/'] };
      await assert.rejects(openPlatform(faulty, { log: silent }), /is not a host/);
      assert.ok(redis.roundTrips() > 0, 'the bus was open');
      await waitUntil('no connection is left', () => redis.count() === 0);
      await close();
    });

    it('logs what Redis refuses without what was sent', async () => {
      const { config, close } = await behindRedisProxy();
      const { lines, log } = capture();
      const platform = await openPlatform(config, { log });
      const redis = new Redis(TEST_REDIS_URL ?? '');
      const err: unknown = await redis
        .call('SET', 'key', 'what was said', 'NOT', 'KNOWN')
        .catch((error: unknown) => error);
      await redis.quit();
      platform.context.log.warn({ err }, 'away');
      platform.context.log.warn({ err: new Error('around it', { cause: err }) }, 'away');
      platform.context.log.warn({ err: new AggregateError([err]) }, 'away');
      await platform.close();
      await close();
      const told = lines.filter((line) => /"away"/.test(line));
      assert.deepEqual([told.length, told.filter((line) => /ERR syntax error/.test(line)).length], [3, 3]);
      assert.ok(!told.join('').includes('what was said'), told.join(''));
    });

    it('says that the bus has lost its connection', async () => {
      const { config, redis, close } = await behindRedisProxy();
      const { lines, log } = capture();
      const platform = await openPlatform(config, { log });
      await redis.cut();
      await waitUntil('it says so', () => lines.some((line) => /bus error/.test(line)));
      await platform.close();
      await close();
    });
  });
}

const silent = pino({ level: 'silent' });
const secrets = { DROVER_SECRET_KEY: 'the tests have no secrets' };

function capture() {
  const lines: string[] = [];
  return { lines, log: pino({}, { write: (line: string) => void lines.push(line) }) };
}

async function migratedBehindProxy() {
  const testDatabase = await createMigratedDatabase();
  const proxy = await openServiceProxy(testDatabase.url);
  const close = async () => {
    await proxy.close();
    await testDatabase.drop();
  };
  return { proxy, url: testDatabase.url, config: loadConfig({ DATABASE_URL: proxy.url, ...secrets }), close };
}

async function behindRedisProxy() {
  const { url, close: closeDatabase } = await migratedBehindProxy();
  const redis = await openServiceProxy(TEST_REDIS_URL ?? '');
  const close = async () => {
    await redis.close();
    await closeDatabase();
  };
  const prefix = { DROVER_QUEUE_PREFIX: `test-${randomUUID()}` };
  return {
    config: loadConfig({ DATABASE_URL: url, REDIS_URL: redis.url, ...prefix, ...secrets }),
    redis,
    close,
  };
}
