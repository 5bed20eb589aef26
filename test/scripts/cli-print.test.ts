import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { difference, plain } from '../../scripts/cli/print.ts';
import { unservedLine } from '../../scripts/cli/say-if-unserved.ts';
import { startDroverThread } from '../support/drover-command.ts';

describe('what the command line prints', () => {
  it('has no character of a model that acts on the terminal or hides text', () => {
    assert.equal(plain('a\u001b[2Jb\u202ec\u200bd\ne\tf'), 'a\\u001b[2Jb\\u202ec\\u200bd\ne\tf');
    assert.equal(plain('bob\u{e0061}\u{e006c}ce\u3164\u2800\u180e'), 'bob\\u{e0061}\\u{e006c}ce\\u3164\\u2800\\u180e');
    assert.equal(plain('Grüße 🌍 日本'), 'Grüße 🌍 日本');
  });
  it('names each place that differs', () => {
    const before = { a: 1, b: { c: [1], d: 'x' } };
    assert.deepEqual(difference(before, { a: 1, b: { c: [2], d: 'x' }, e: null }), [
      '- b.c: [1]',
      '+ b.c: [2]',
      '+ e: null',
    ]);
    assert.deepEqual(difference(before, before), []);
  });

  it('says that no worker takes turns where one has waited for long and none is under way', () => {
    const turns = (active: number, oldest_waiting_at: string | null) => [{ queue: 'turns', active, oldest_waiting_at }];
    const [since, nowMs] = ['2026-01-01T00:00:00.000Z', Date.parse('2026-01-01T00:00:42.000Z')];
    assert.match(unservedLine(turns(0, since), nowMs) ?? '', /^Turns wait for a worker, for up to 42 s, /);
    assert.equal(unservedLine(turns(1, since), nowMs), undefined);
    assert.equal(unservedLine(turns(0, null), nowMs), undefined);
    assert.equal(unservedLine(turns(0, since), Date.parse(since) + 1000), undefined);
  });

  it('says so once to whoever follows a run', async () => {
    const queues = [{ queue: 'turns', active: 0, oldest_waiting_at: '2026-01-01T00:00:00.000Z' }];
    let status = 'created';
    let tellsQueues: () => void = () => undefined;
    const told = new Promise<void>((resolve) => (tellsQueues = resolve));
    const service = createServer((request, response) => {
      response.setHeader('x-request-id', '1');
      const isStream = request.url?.endsWith('/stream') === true;
      if (isStream) return void told.then(() => response.setHeader('content-type', 'text/event-stream').end());
      if (request.url !== '/v1/dashboard/queues') return void response.end(JSON.stringify({ status }));
      status = 'completed';
      response.end(JSON.stringify({ queues }), tellsQueues);
    });
    await once(service.listen(0, '127.0.0.1'), 'listening');
    const env = { DROVER_URL: `http://127.0.0.1:${(service.address() as AddressInfo).port}`, DROVER_API_KEY: 'any' };
    const commands = startDroverThread();
    const run = '019a0000-0000-7000-8000-000000000001';
    const { code, err } = await commands.drover(['runs', 'follow', run], env);
    await commands.close();
    service.close();
    assert.equal(code, 0);
    assert.match(err, /^drover: Turns wait for a worker, [^\n]+ `drover start worker` starts one\.\n$/);
  });
});
