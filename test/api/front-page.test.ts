import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';

/** What browsers send with the address that somebody has typed. */
const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

describe('the address of the service itself', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const get = (headers: Record<string, string>) => api.call('GET', '/', { key: null, headers });

  it('shows a browser what this is, with links that lead somewhere, and neither scripts nor secrets', async () => {
    const { status, headers, text } = await get(BROWSER);
    assert.deepEqual([status, headers.get('content-type')], [200, 'text/html; charset=utf-8']);
    assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none'; style-src 'unsafe-inline'; form/);
    const links = [...text.matchAll(/href="([^"]+)"/g)].map(([, link = '']) => link);
    assert.deepEqual(links, ['/openapi.json', '/admin/queues', '/healthz', '/readyz']);
    // The board asks who it is.
    for (const link of links)
      assert.notEqual((await api.call('GET', link, { key: null, headers: BROWSER })).status, 404, link);
    assert.doesNotMatch(text, /<script|drv_/);
    assert.ok(!text.includes(api.key));
  });

  it('is no resource for other clients, and takes nothing', async () => {
    for (const headers of [{ accept: '*/*' }, { accept: 'application/json' }]) {
      const { status, headers: answered } = await get(headers);
      assert.deepEqual([status, answered.get('content-type')], [404, 'application/problem+json']);
    }
    assert.equal((await api.call('POST', '/', { headers: BROWSER, body: {} })).status, 404);
  });
});
