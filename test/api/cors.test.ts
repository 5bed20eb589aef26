import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';

const LISTED = 'https://app.example';

describe('requests of pages', () => {
  const apis: TestApi[] = [];
  const start = async (origins?: string) => {
    const api = await startTestApi(undefined, { env: origins === undefined ? {} : { DROVER_CORS_ORIGINS: origins } });
    apis.push(api);
    return api;
  };
  afterEach(async () => {
    for (const api of apis.splice(0)) await api.close();
  });

  const preflight = (api: TestApi, origin: string) =>
    fetch(`${api.url}/v1/agents`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type,idempotency-key',
      },
    });
  const allowed = (headers: Headers) => headers.get('access-control-allow-origin');

  it('of a listed origin are let through after a preflight without a key, their problems too', async () => {
    const api = await start(`${LISTED},http://localhost:5173`);
    const asked = await preflight(api, LISTED);
    assert.deepEqual([asked.status, allowed(asked.headers)], [204, LISTED]);
    assert.match(asked.headers.get('access-control-allow-headers') ?? '', /Authorization.*Idempotency-Key.*Prefer/);
    assert.match(asked.headers.get('access-control-allow-methods') ?? '', /POST/);
    // What clients of MCP and A2A, and browsers that are traced, send by themselves.
    const mayBeSent = (asked.headers.get('access-control-allow-headers') ?? '').split(', ');
    for (const name of ['Mcp-Protocol-Version', 'Mcp-Session-Id', 'A2A-Version', 'A2A-Extensions', 'tracestate']) {
      assert.ok(mayBeSent.includes(name), name);
    }
    const headers = { origin: LISTED };
    for (const [path, status] of [['/v1/agents', 200] as const, [`/v1/runs/none`, 404] as const]) {
      const answer = await api.call('GET', path, { headers });
      assert.deepEqual([answer.status, allowed(answer.headers)], [status, LISTED]);
      assert.match(answer.headers.get('vary') ?? '', /Origin/);
      assert.equal(answer.headers.get('access-control-allow-credentials'), null);
      const exposed = answer.headers.get('access-control-expose-headers') ?? '';
      for (const name of [
        'Location',
        'Retry-After',
        'Idempotent-Replayed',
        'X-Request-Id',
        'RateLimit',
        'Preference-Applied',
        'X-Drover-Thread-Id',
        'X-Vercel-AI-UI-Message-Stream',
        'Mcp-Session-Id',
        'WWW-Authenticate',
        'Content-Disposition',
        'Content-Range',
      ]) {
        assert.ok(exposed.split(', ').includes(name), name);
      }
    }
    assert.equal((await api.call('GET', '/v1/agents', { headers, key: null })).status, 401);
  });

  it('of another origin are not, nor of any where none is listed', async () => {
    for (const api of [await start(LISTED), await start()]) {
      const asked = await preflight(api, 'https://evil.example');
      assert.equal(allowed(asked.headers), null);
      const answer = await api.call('GET', '/v1/agents', { headers: { origin: 'https://evil.example' } });
      assert.equal(allowed(answer.headers), null);
    }
  });

  it('are let through from anywhere with *, and never with credentials', async () => {
    const api = await start('*');
    for (const { headers } of [
      await preflight(api, 'https://any.example'),
      await api.call('GET', '/v1/agents', { headers: { origin: 'https://any.example' } }),
    ]) {
      assert.equal(allowed(headers), '*');
      assert.equal(headers.get('access-control-allow-credentials'), null);
    }
  });

  it('to the MCP server are refused from origins that are not listed, but for those of the own machine', async () => {
    const api = await start(LISTED);
    const ping = (origin?: string) =>
      api.call('POST', '/mcp', {
        body: { jsonrpc: '2.0', id: 1, method: 'ping' },
        headers: { accept: 'application/json, text/event-stream', ...(origin !== undefined && { origin }) },
      });
    for (const origin of [
      'https://evil.example',
      'null',
      'http://localhost.evil.example',
      'https://app.example.evil',
    ]) {
      assert.equal((await ping(origin)).status, 403, origin);
    }
    for (const origin of [undefined, LISTED, 'http://localhost:6274', 'http://127.0.0.1:1', 'http://[::1]:8080']) {
      assert.equal((await ping(origin)).status, 200, origin);
    }
  });
});
