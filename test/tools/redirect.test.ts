import assert from 'node:assert/strict';
import { nextHop, withoutSecrets } from '../../tools/redirect.ts';

describe('a redirect', () => {
  const request = {
    url: new URL('https://tools.example/pay'),
    method: 'POST',
    headers: { authorization: 'Bearer k', 'x-key': 'k', cookie: 'k', 'idempotency-key': 'call-1', accept: '*/*' },
    body: '{}',
  };
  const kept = (to: string) => Object.keys(nextHop(request, 307, new URL(to)).headers).toSorted();

  it('takes every header to the same origin', () => {
    assert.deepEqual(kept('https://tools.example/other'), Object.keys(request.headers).toSorted());
  });

  it('takes no header that may hold a secret to the same host without TLS, to another port, or to another host', () => {
    for (const to of ['http://tools.example/pay', 'https://tools.example:8443/pay', 'https://pay.tools.example/pay']) {
      assert.deepEqual(kept(to), ['accept', 'idempotency-key'], to);
    }
  });

  it('takes no secret to the same host without TLS, in whatever header it stands, nor in a body', async () => {
    const [https, http] = [new URL('https://tools.example/other'), new URL('http://tools.example/pay')];
    const confidential = { headers: ['accept'], body: false, refuseUrl: () => Promise.resolve(undefined) };
    const go = (url: URL, body: boolean) =>
      withoutSecrets({ ...confidential, body }, request, nextHop(request, 307, url));
    assert.deepEqual(await go(https, true), { ...request, url: https, hasLeft: false });
    assert.deepEqual((await go(http, false)).headers, { 'user-agent': 'drover', 'idempotency-key': 'call-1' });
    await assert.rejects(go(http, true), { code: 'refused' });
  });
});
