import assert from 'node:assert/strict';
import { WebSocket } from 'ws';
import { serve, type RunningApi } from '../../api/serve.ts';
import { ROUTES } from '../../api/routes.ts';
import { createBus, type BusReceiver } from '../../bus/batching-bus.ts';
import type { Parcel } from '../../bus/payloads.ts';
import type { Bus } from '../../bus/bus.ts';
import { LIMITS } from '../../core/limits.ts';
import type { Database, Tx } from '../../db/database.ts';
import { request } from '../support/api.ts';
import { startWorkers } from '../../workers/start-workers.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { overDatabase } from '../support/over-database.ts';
import { waitUntil } from '../support/wait-until.ts';
import { expireKey } from '../support/queries/tenants.ts';

interface Stream {
  kind: 'socket' | 'sse';
  /** Names of what came. */
  seen: string[];
  /** The close code of a socket, 0 for an SSE stream that has ended. */
  ended: number | undefined;
  leave: () => void;
}

const OF_EACH = 10;

describe('Streams in which nothing happens', function () {
  let platform: TestPlatform;
  let api: RunningApi;
  let bus: Bus;
  let receiver: BusReceiver;
  /** Whether the bus carries what is sent on it. */
  let isCarried = true;
  const statements: string[] = [];
  const streams: Stream[] = [];
  let sessions: { id: string; run: string }[];

  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await request(`${api.url}${path}`, method, {
      key: platform.apiKey,
      ...(body === undefined ? {} : { body }),
    });
    assert.ok(answer.status < 300, answer.text);
    return answer.json;
  };
  const watchSocket = async (session: string, key: string): Promise<Stream> => {
    const socket = new WebSocket(`${api.url}/agent/stream/${session}`, { headers: { authorization: `Bearer ${key}` } });
    const stream: Stream = { kind: 'socket', seen: [], ended: undefined, leave: () => socket.terminate() };
    socket.on('error', () => undefined);
    socket.on('message', (data: Buffer) => stream.seen.push(JSON.parse(data.toString()).type));
    socket.on('close', (code) => (stream.ended = code));
    socket.on('open', () => socket.send('{"type":"resume","after":0}'));
    streams.push(stream);
    await waitUntil('the session is shown', () => stream.seen.includes('completed'));
    return stream;
  };
  const watchRun = async (run: string, key: string): Promise<Stream> => {
    const leave = new AbortController();
    const stream: Stream = { kind: 'sse', seen: [], ended: undefined, leave: () => leave.abort() };
    streams.push(stream);
    const headers = { authorization: `Bearer ${key}` };
    const response = await fetch(`${api.url}/v1/runs/${run}/stream`, { headers, signal: leave.signal });
    const read = async () => {
      for await (const piece of response.body ?? []) {
        stream.seen.push(
          ...[
            ...Buffer.from(piece)
              .toString()
              .matchAll(/^event: (\w+)$/gm),
          ].map(([, name = '']) => name),
        );
      }
    };
    read()
      .catch(() => undefined)
      .finally(() => (stream.ended = 0));
    await waitUntil('the run is shown', () => stream.seen.includes('done'));
    return stream;
  };
  const newKey = async (): Promise<{ id: string; key: string }> =>
    call('POST', '/v1/api-keys', { name: 'watcher', scopes: ['runs:read'] });
  const both = async (key: string): Promise<Stream[]> => {
    const [session] = sessions;
    assert.ok(session);
    return [await watchSocket(session.id, key), await watchRun(session.run, key)];
  };

  before(async () => {
    platform = await openTestPlatform();
    bus = await createBus(
      async (given) => {
        receiver = given;
        const send = async (parcels: readonly Parcel[]) => {
          if (isCarried) parcels.forEach(({ payload }) => given.onPayload(payload));
        };
        return { maxBytes: Number.POSITIVE_INFINITY, send, close: async () => undefined };
      },
      (error) => {
        throw error;
      },
    );
    const db = noting(platform.context.db, statements);
    api = await serve(overDatabase({ ...platform.context, bus }, db), ROUTES, { host: '127.0.0.1', port: 0 });
    const { id: agent_id } = await call('POST', '/v1/agents', { name: 'quiet' });
    const chat = { message: 'hello', user_id: 'ada', agent_id };
    sessions = [];
    for (let n = 0; n < 2; n += 1) {
      const { session_id: id } = await call('POST', '/agent/chat', chat);
      sessions.push({ id, run: (await call('GET', `/agent/session/${id}`)).run_id });
    }
    // The first turns are taken, and later ones wait.
    const workers = await startWorkers(platform.context);
    for (const { id } of sessions) {
      await waitUntil('it is answered', async () => (await call('GET', `/agent/session/${id}`)).status === 'completed');
    }
    await workers.stop(3000);
  });
  afterEach(() => {
    isCarried = true;
    for (const { leave } of streams.splice(0)) leave();
  });
  after(async () => {
    await api?.close(1000);
    await bus?.close();
    await platform?.close();
  });

  it('cost one statement now and then, all together, and show what the bus has not told', async () => {
    for (const { id, run } of sessions) {
      for (let n = 0; n < OF_EACH; n += 1) {
        await watchSocket(id, platform.apiKey);
        await watchRun(run, platform.apiKey);
      }
    }
    assert.equal(streams.length, 4 * OF_EACH);
    statements.length = 0;
    const startedMs = performance.now();
    receiver.onGap();
    // The second one comes by itself.
    await waitUntil('the log was looked at twice', () => statements.length >= 2);
    assert.deepEqual(new Set(statements), new Set(['maintenance']));
    const most = 2 + Math.ceil((performance.now() - startedMs) / (LIMITS.streamPollSeconds * 1000));
    assert.ok(statements.length <= most, `${statements.length} statements, at most ${most}`);

    isCarried = false;
    const [session] = sessions;
    await call('POST', '/agent/chat', { message: 'more', user_id: 'ada', session_id: session?.id });
    const shown = () => streams.filter(({ seen }) => seen.includes('session_resumed')).length;
    statements.length = 0;
    receiver.onGap();
    await waitUntil('the message is shown to who watches its session', () => shown() === OF_EACH);
    const reads = statements.filter((by) => by === 'tenant').length;
    assert.ok(reads <= 24, `${reads} statements for the streams of one run`);
  });

  it('end when their key is revoked, and no others do', async () => {
    const { id, key } = await newKey();
    const ended = await both(key);
    const others = await both(platform.apiKey);
    await call('DELETE', `/v1/api-keys/${id}`);
    await waitUntil('both have ended', () => ended.every((stream) => stream.ended !== undefined));
    assert.deepEqual(
      ended.map((stream) => stream.ended),
      [4001, 0],
    );
    assert.deepEqual(
      others.map((stream) => stream.ended),
      [undefined, undefined],
    );
  });

  it('end when their key has expired', async () => {
    const { id, key } = await newKey();
    const ended = await both(key);
    await expireKey(platform.context.db, id);
    receiver.onGap();
    await waitUntil('both have ended', () => ended.every((stream) => stream.ended !== undefined));
    assert.equal(ended[0]?.ended, 4001);
  });
});

/** The same database; on whose behalf each statement is made is noted. */
function noting(db: Database, statements: string[]): Database {
  const note = (tx: Tx, by: string): Tx => ({
    last(text, values) {
      statements.push(by);
      return tx.last(text, values);
    },
    query(text, values) {
      statements.push(by);
      return tx.query(text, values);
    },
  });
  return {
    ...db,
    withTenant: (tenant, work) => db.withTenant(tenant, (tx) => work(note(tx, 'tenant'))),
    withTenantOnce: (tenant, work) => db.withTenantOnce(tenant, (tx) => work(note(tx, 'tenant'))),
    asMaintenance: (work) => db.asMaintenance((tx) => work(note(tx, 'maintenance'))),
  };
}
