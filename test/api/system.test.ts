import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { ROUTES } from '../../api/routes.ts';
import { serve } from '../../api/serve.ts';
import { ageOutbox } from '../support/queries/outbox.ts';
import { startTestApi } from '../support/api.ts';
import type { TestApi } from '../support/api.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { DOMAIN_MODES } from '../support/modes.ts';
import { ROOT } from '../support/repository.ts';
import { waitUntil } from '../support/wait-until.ts';

/** As a proxy on the same machine passes a request on. */
const FORWARDED = { 'x-forwarded-for': '203.0.113.7' };

const OF_THE_DATABASE = /^drover_(maintenance_overdue|outbox|webhook_deliver(y_age|ies_due))\S* \d/m;

for (const mode of DOMAIN_MODES) {
  describe(`what an operator's machines ask (${mode})`, () => {
    let api: TestApi;
    before(async () => {
      api = await startTestApi(mode);
    });
    after(() => api.close());

    it('is answered without a key: alive, and ready', async () => {
      assert.deepEqual((await api.call('GET', '/healthz', { key: null, headers: FORWARDED })).json, { status: 'ok' });
      const { status, json } = await api.call('GET', '/readyz', { key: null, headers: FORWARDED });
      assert.deepEqual([status, json.checks], [200, { database: 'ok', queue: 'ok', migrations: 'ok' }]);
    });

    it('is not taken to come from this machine where a proxy says otherwise, by whichever header', async () => {
      assert.equal((await api.call('GET', '/metrics', { key: null })).status, 200);
      for (const name of ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']) {
        const headers = { [name]: name === 'forwarded' ? 'for=203.0.113.7' : '203.0.113.7' };
        assert.equal((await api.call('GET', '/metrics', { key: null, headers })).status, 401, name);
      }
    });

    it('includes numbers for Prometheus: requests by route, jobs by queue, event-loop lag', async () => {
      await api.call('GET', '/v1/agents');
      const { status, text, headers } = await api.call('GET', '/metrics', { key: null });
      assert.equal(status, 200);
      assert.match(headers.get('content-type') ?? '', /^text\/plain/);
      assert.match(
        text,
        /drover_http_request_duration_seconds_count\{method="GET",route="\/v1\/agents",status="200"\} \d/,
      );
      for (const queue of ['turns', 'tool-calls', 'maintenance', 'webhooks', 'consolidation']) {
        assert.match(text, new RegExp(`drover_queue_jobs\\{queue="${queue}",state="wait(ing)?"\\} \\d`));
      }
      assert.match(text, /drover_nodejs_eventloop_lag_seconds/);
    });

    it('has how many jobs wait for their queue, and since when', async () => {
      const read = async (name: string) => {
        const { text } = await api.call('GET', '/metrics', { key: null });
        return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
      };
      assert.equal(await read('drover_outbox_jobs'), 0);
      await ageOutbox(api, 120);
      assert.equal(await read('drover_outbox_jobs'), 1);
      assert.ok((await read('drover_outbox_age_seconds')) >= 120);
    });

    it("asks for a key what comes from elsewhere: any for the description, the operator's for numbers", async () => {
      const { key } = await api.newTenant();
      for (const [path, own, other] of [
        ['/metrics', 200, 403],
        ['/openapi.json', 200, 200],
      ] as const) {
        assert.equal((await api.call('GET', path, { key: null, headers: FORWARDED })).status, 401);
        assert.equal((await api.call('GET', path, { headers: FORWARDED })).status, own);
        assert.equal((await api.call('GET', path, { key, headers: FORWARDED })).status, other);
        assert.equal((await api.call('GET', path, { key: null })).status, 200);
      }
    });

    it('includes a description of the API that names the version of the package', async () => {
      const { version } = JSON.parse(readFileSync(new URL('package.json', ROOT), 'utf8'));
      const { json } = await api.call('GET', '/openapi.json', { key: null });
      assert.deepEqual(json.info, { title: 'Drover', version });
    });

    it('includes a description that is made once, not again for each request', async () => {
      const other = await serve(api.context, ROUTES, { host: '127.0.0.1', port: 0 });
      const cpuOf = async (times: number) => {
        const startedMs = cpuMs();
        for (let at = 0; at < times; at += 1) {
          const answer = await fetch(`${other.url}/openapi.json`);
          assert.equal(answer.headers.get('content-type'), 'application/json; charset=utf-8');
          await answer.arrayBuffer();
        }
        return cpuMs() - startedMs;
      };
      try {
        const firstMs = await cpuOf(1);
        const laterMs = await cpuOf(10);
        assert.ok(laterMs < 2 * firstMs, `${firstMs} ms of CPU for the first, ${laterMs} for ten others`);
      } finally {
        await other.close(1000);
      }
    });

    it('is logged in one line a request, with its trace and without its secrets', async () => {
      const trace = 'a'.repeat(32);
      const headers = { 'x-request-id': 'my-request-1', traceparent: `00-${trace}-${'b'.repeat(16)}-01` };
      const answer = await api.call('POST', '/v1/agents?x=hunter2', { headers, body: { name: 'hunter2' } });
      assert.equal(answer.headers.get('x-request-id'), 'my-request-1');
      assert.match(answer.headers.get('traceparent') ?? '', new RegExp(`^00-${trace}-(?!b{16})[0-9a-f]{16}-01$`));
      const lines = () => api.log.filter((line) => line['request_id'] === 'my-request-1');
      await waitUntil('the request is logged', () => lines().length > 0);
      const [line] = lines();
      assert.deepEqual(
        [
          lines().length,
          line?.['method'],
          line?.['route'],
          line?.['status'],
          line?.['trace_id'],
          typeof line?.['ms'],
          typeof line?.['tenant'],
        ],
        [1, 'POST', '/v1/agents', 400, trace, 'number', 'string'],
      );
      assert.doesNotMatch(JSON.stringify(api.log), new RegExp(`hunter2|${api.key}`));
    });

    it('gets ids of our own where those sent are malformed', async () => {
      const headers = { 'x-request-id': 'a b', traceparent: '00-zz-1-1' };
      const answer = await api.call('GET', '/healthz', { headers });
      assert.match(answer.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
      assert.match(answer.headers.get('traceparent') ?? '', /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    });
  });
}

describe('with the database gone', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
    await api.call('GET', '/v1/agents');
    assert.equal((await api.call('GET', '/metrics')).text.match(new RegExp(OF_THE_DATABASE, 'gm'))?.length, 5);
    await api.context.db.close();
  });
  after(() => api.close());

  it('requests are 503 and say when to come again, whether their key is known or not', async () => {
    for (const key of [api.key, 'never-seen']) {
      const answer = await api.call('GET', '/v1/agents', { key });
      assert.equal(answer.status, 503, answer.text);
      assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
      assert.match(answer.json.detail, /database/);
    }
  });

  it('the process is alive and not ready, and says what is missing', async () => {
    assert.equal((await api.call('GET', '/healthz')).status, 200);
    const { status, json } = await api.call('GET', '/readyz');
    assert.deepEqual([status, json.checks.database, /database away/.test(json.detail)], [503, 'away', true]);
  });

  it('numbers are still told, without those that the database has: no number of before, and no 0', async () => {
    const never = await startTestApi();
    await never.context.db.close();
    for (const each of [api, never]) {
      const { status, text } = await each.call('GET', '/metrics');
      assert.equal(status, 200);
      assert.match(text, /^drover_nodejs_eventloop_lag_seconds /m);
      assert.doesNotMatch(text, OF_THE_DATABASE);
    }
    await never.close();
  });
});
