/** Clients of WebSockets that do not keep up. */
import assert from 'node:assert/strict';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { defineRoute, type Route } from '../../api/kit/route.ts';
import type { SocketLimits } from '../../api/kit/sockets.ts';
import { ROUTES } from '../../api/routes.ts';
import { serve, type RunningApi } from '../../api/serve.ts';
import { newId } from '../../lib/new-id.ts';
import { request } from '../support/api.ts';
import { text as say } from '../support/engine.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { waitUntil } from '../support/wait-until.ts';
import { typesOf, watchSession, type Frame } from '../support/watch-session.ts';

describe('A slow client of a session', function () {
  let platform: TestPlatform;
  let model: FakeServer;
  let answer: AnthropicReply;
  let api: RunningApi | undefined;
  const opened: WebSocket[] = [];

  before(async () => {
    model = await startFakeAnthropic(() => answer);
    const env = { ANTHROPIC_API_KEY: 'sk-test', ANTHROPIC_BASE_URL: model.url };
    platform = await openTestPlatform(undefined, { api: true, workers: true, env });
    await call('POST', '/v1/agents', { name: 'talker' });
  });
  after(async () => {
    await platform?.close();
    await model?.close();
  });
  afterEach(async () => {
    for (const socket of opened.splice(0)) socket.terminate();
    await api?.close(1000);
    api = undefined;
  });

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body === undefined ? {} : { body }) });
  /** A session with a first turn that is over. */
  const begin = async (): Promise<string> => {
    answer = say('hello');
    const made = await call('POST', '/agent/chat', { message: 'hello', user_id: 'ada' });
    assert.equal(made.status, 202, made.text);
    const session = made.json.session_id;
    const isOver = async () => (await call('GET', `/agent/session/${session}`)).json.status === 'completed';
    await waitUntil('the first turn is over', isOver);
    return session;
  };
  /** Another server, which leaves a client all the time of a busy machine to read its close. */
  const start = async (limits: Partial<SocketLimits>, routes: readonly Route[] = ROUTES): Promise<string> => {
    const sockets = { closeMs: 120_000, ...limits };
    api = await serve(platform.context, routes, { host: '127.0.0.1', port: 0, sockets });
    return api.url;
  };
  const watch = async (session: string, { url = platform.url ?? '', after, id = newId() }: Watching = {}) => {
    const headers = { authorization: `Bearer ${platform.apiKey}`, 'x-request-id': id };
    const watcher = await watchSession({ url, session, headers, after });
    opened.push(watcher.socket);
    return watcher;
  };
  /** Waits until the server has given a client up that is too slow, from now on. */
  const givenUp = () => {
    const isSlow = ({ msg }: Record<string, unknown>) => msg === 'a client of a stream is too slow';
    const before = platform.log.filter(isSlow).length;
    return () => waitUntil('the server gives up', () => platform.log.filter(isSlow).length > before);
  };
  /** A route that sends more than the buffers of both ends hold, once its client has said something. */
  const flood = () =>
    defineRoute({
      method: 'get',
      path: '/agent/stream/:id',
      access: 'runs:read',
      summary: 'Sends more than the buffers of both ends hold',
      params: z.strictObject({ id: z.string() }),
      responses: { 101: 'empty' },
      handle({ app, ctx, caller }) {
        app.sockets?.open(ctx.req, caller, (held) => {
          held.socket.once('message', () => {
            for (let sent = 0; sent < 64; sent += 1) held.send(JSON.stringify({ type: 'x'.repeat(1024 * 1024) }));
          });
        });
        ctx.respond = false;
        return Promise.resolve({ status: 101 });
      },
    });

  /** The code with which a client is closed that reads nothing until it is given up. */
  const closedWhereItDoesNotRead = async (url: string) => {
    const isGivenUp = givenUp();
    const watcher = await watch('any', { url });
    watcher.socket.pause();
    watcher.socket.send('go');
    await isGivenUp();
    watcher.socket.resume();
    return watcher.closed;
  };

  it('is closed with 4008 where it does not read', async () => {
    const url = await start({ stallMs: 100 }, [flood()]);
    assert.equal(await closedWhereItDoesNotRead(url), 4008);
  });

  it('is closed with 4008 where it reads too slowly to come to a ping, and may read why', async () => {
    // What waits may wait for longer than many pings.
    const url = await start({ stallMs: 600_000, pingMs: 50 }, [flood()]);
    assert.equal(await closedWhereItDoesNotRead(url), 4008);
  });

  it('is closed with 4008 in the middle of it, and goes on where that has come to', async () => {
    const session = await begin();
    const { run_id } = (await call('GET', `/agent/session/${session}`)).json;
    // More than the buffers of both ends hold.
    answer = say('x'.repeat(3_000_000));
    for (let turn = 0; turn < 4; turn += 1) {
      const { json, text } = await call('POST', `/v1/runs/${run_id}/turns`, { input: { message: 'more' } });
      assert.equal(json?.output?.status, 'complete', text.slice(0, 500));
    }
    const url = await start({ stallMs: 100 });
    const isGivenUp = givenUp();
    const slow = await watch(session, { url });
    slow.socket.pause();
    slow.socket.send(JSON.stringify({ type: 'resume', after: 0 }));
    await isGivenUp();
    slow.socket.resume();
    assert.equal(await slow.closed, 4008);
    const seqsOf = (frames: readonly Frame[]) => frames.flatMap(({ seq }) => seq ?? []);
    const seen = seqsOf(slow.frames);
    const again = await watch(session, { after: seen.at(-1) ?? 0 });
    const whole = await watch(session, { after: 0 });
    const isWhole = (frames: readonly Frame[]) => typesOf(frames).filter((type) => type === 'completed').length === 5;
    await whole.until('all of it', isWhole);
    await again.until('the rest', (frames) => frames.at(-1)?.seq === whole.frames.at(-1)?.seq);
    assert.deepEqual([...seen, ...seqsOf(again.frames)], seqsOf(whole.frames));
  });

  it('is closed with 4008 where it answers no ping, and cut off where it does not answer that', async () => {
    const session = await begin();
    const id = newId();
    const watcher = await watch(session, { url: await start({ pingMs: 50, closeMs: 50 }), id });
    watcher.socket.pause();
    await waitUntil('the connection is gone', () => platform.log.some((line) => line['request_id'] === id));
    watcher.socket.resume();
    assert.equal(await watcher.closed, 4008);
  });
});

interface Watching {
  url?: string;
  after?: number;
  id?: string;
}
