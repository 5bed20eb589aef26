import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { defineRoute } from '../../api/kit/route.ts';
import { DOMAIN_MODE } from '../support/modes.ts';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

/** Routes that the test holds in its hand. */
function routesOf(gate: { open: () => void; started: number; ended: number; stuck: Promise<void> }) {
  const slow = defineRoute({
    method: 'get',
    path: '/slow',
    access: 'open',
    summary: 'Waits',
    responses: { 200: z.string() },
    async handle() {
      gate.started += 1;
      await gate.stuck;
      return { status: 200, body: 'done' };
    },
  });
  const stream = defineRoute({
    method: 'get',
    path: '/stream',
    access: 'open',
    summary: 'Never ends by itself',
    responses: { 200: { contentType: 'text/event-stream', description: 'Pings' } },
    handle: ({ app }) => {
      async function* pings() {
        gate.started += 1;
        try {
          yield ': ping\n\n';
          await new Promise((resolve) => {
            app.closing.addEventListener('abort', resolve);
          });
        } finally {
          gate.ended += 1;
        }
      }
      return Promise.resolve({
        status: 200,
        body: Readable.from(pings()),
        headers: { 'content-type': 'text/event-stream' },
      });
    },
  });
  const broken = defineRoute({
    method: 'get',
    path: '/broken',
    access: 'open',
    summary: 'Fails',
    responses: { 200: z.string() },
    handle: () => Promise.reject(new Error('select hunter2 from secrets')),
  });
  return [slow, stream, broken];
}

function newGate() {
  let open = (): void => undefined;
  const stuck = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, stuck, started: 0, ended: 0 };
}

describe('the server', () => {
  const start = async () => {
    const gate = newGate();
    return { gate, api: await startTestApi(DOMAIN_MODE, { routes: routesOf(gate) }) };
  };

  it('that stops lets open requests end, ends streams, and takes no new ones', async () => {
    const { gate, api } = await start();
    const open = fetch(`${api.url}/slow`);
    const stream = await fetch(`${api.url}/stream`);
    assert.equal(stream.headers.get('content-type'), 'text/event-stream');
    await waitUntil('both are open', () => gate.started === 2);
    const closing = api.close();
    assert.equal(await stream.text(), ': ping\n\n');
    await assert.rejects(fetch(`${api.url}/healthz`), 'a new connection must be refused');
    gate.open();
    assert.equal(await (await open).text(), 'done');
    await closing;
  });

  it('that stops cuts off what is open past its time', async () => {
    const { gate, api } = await start();
    const open = fetch(`${api.url}/slow`);
    open.catch(() => undefined);
    await waitUntil('it is open', () => gate.started === 1);
    await api.close();
    await assert.rejects(open);
    gate.open();
  });

  describe('that runs', () => {
    let gate: ReturnType<typeof newGate>;
    let api: TestApi;
    before(async () => {
      ({ gate, api } = await start());
    });
    after(() => api.close());

    it('calls it no error when the client of a stream goes away', async () => {
      const client = new AbortController();
      const response = await fetch(`${api.url}/stream`, { signal: client.signal });
      await response.body?.getReader().read();
      client.abort();
      await api.call('GET', '/broken');
      await waitUntil('the request is logged', () => api.log.some((line) => line['disconnected'] === true));
      assert.ok(!api.log.some((line) => line['msg'] === 'an answer broke off'));
      gate.open();
    });

    it('tells nothing of what went wrong inside, and logs it', async () => {
      const answer = await api.call('GET', '/broken');
      assert.deepEqual([answer.status, answer.json.code], [500, 'internal']);
      assert.doesNotMatch(answer.text, /hunter2|at .*\.ts/);
      const line = api.log.find(
        (each) => each['request_id'] === answer.json.request_id && each['msg'] === 'request failed',
      );
      assert.match(JSON.stringify(line), /hunter2.*serve\.test\.ts/);
    });
  });
});
