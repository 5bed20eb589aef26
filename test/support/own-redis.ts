/** A Redis of a test's own, without persistence and password, which the test may freeze. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { freePort } from '../../scripts/kit/child-process.ts';
import { openServiceProxy, type ServiceProxy } from '../../scripts/kit/service-proxy.ts';
import { MODES, MUST_BE_COMPLETE } from './modes.ts';
import { waitUntil } from './wait-until.ts';

interface OwnRedis {
  url: string;
  /** It answers nothing, and its kernel keeps its connections. */
  freeze: () => void;
  thaw: () => void;
  close: () => Promise<void>;
}

/** Starts one with this eviction policy; undefined if this machine has no `redis-server`. */
export async function startOwnRedis(policy = 'noeviction'): Promise<OwnRedis | undefined> {
  const port = await freePort();
  const options = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--maxmemory-policy', policy];
  const server = spawn('redis-server', options, { cwd: '/', stdio: 'ignore' });
  const ended = once(server, 'exit');
  const isThere = await once(server, 'spawn').then(
    () => true,
    () => false,
  );
  if (!isThere) return undefined;
  const url = `redis://127.0.0.1:${port}`;
  const client = new Redis(url, { retryStrategy: () => 20, maxRetriesPerRequest: null });
  client.on('error', () => undefined);
  await waitUntil('Redis answers', async () => (await client.ping()) === 'PONG');
  client.disconnect();
  return {
    url,
    freeze: () => server.kill('SIGSTOP'),
    thaw: () => server.kill('SIGCONT'),
    async close() {
      server.kill('SIGKILL');
      await ended;
    },
  };
}

/** Two of them at one address, which leads to the first one. */
export interface RedisPair {
  address: ServiceProxy;
  second: OwnRedis;
  /** The first one freezes, and new connections come to the second one. */
  freezeFirst: () => void;
  thawFirst: () => void;
  close: () => Promise<void>;
}

/** Starts both; undefined where full mode is not tested, or this machine has no `redis-server` and tests need not be complete. */
export async function startRedisPair(): Promise<RedisPair | undefined> {
  if (!MODES.includes('full')) return undefined;
  const [first, second] = await Promise.all([startOwnRedis(), startOwnRedis()]);
  if (first === undefined || second === undefined) {
    assert.ok(!MUST_BE_COMPLETE, 'Redis is not installed here');
    return undefined;
  }
  const address = await openServiceProxy(first.url);
  return {
    address,
    second,
    freezeFirst() {
      address.leadTo(second.url);
      first.freeze();
    },
    thawFirst: () => first.thaw(),
    async close() {
      await address.close();
      await Promise.all([first.close(), second.close()]);
    },
  };
}
