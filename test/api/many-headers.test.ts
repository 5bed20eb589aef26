/** Requests whose headers are many, doubled or odd: servers that read them otherwise than those before them serve one client's answers to another. */
import assert from 'node:assert/strict';
import { newId } from '../../lib/new-id.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { exchange } from '../support/exchange.ts';
import { newName } from '../support/new-name.ts';

/** More than Node's own limit, short enough for that of their bytes. */
const MANY = Array.from({ length: 1100 }, (_, n) => `a${n}: b`);

describe('A request with many headers', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const answersTo = async (lines: readonly string[], body = '') =>
    (await exchange(api.url, [...lines], body)).match(/HTTP\/1\.1 \d{3}/g)?.map((line) => line.slice(9));
  const withKey = () => ['host: x', `authorization: Bearer ${api.key}`, 'connection: close'];

  it('has the body that its last header announces, also where it would upgrade to what nobody speaks', async () => {
    const smuggled = 'GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
    const upgrade = ['upgrade: h2c', 'connection: upgrade, close'];
    for (const more of [upgrade, ['connection: close']]) {
      const lines = ['POST /x HTTP/1.1', 'host: x', ...more, ...MANY, `content-length: ${smuggled.length}`];
      assert.deepEqual(await answersTo(lines, smuggled), ['404']);
    }
  });

  it('has passed a proxy where its last header says so', async () => {
    const lines = ['GET /metrics HTTP/1.1', 'host: x', 'connection: close'];
    assert.deepEqual(await answersTo([...lines, ...MANY]), ['200']);
    assert.deepEqual(await answersTo([...lines, ...MANY, 'x-forwarded-for: 203.0.113.9']), ['401']);
  });

  it('is done once for the key that its last header gives', async () => {
    const body = JSON.stringify({ name: newName('once') });
    const head = ['POST /v1/agents HTTP/1.1', ...withKey(), 'content-type: application/json', ...MANY];
    const lines = [...head, `content-length: ${body.length}`, `idempotency-key: ${newId()}`];
    const [first, second] = [await exchange(api.url, lines, body), await exchange(api.url, lines, body)];
    assert.match(first, /^HTTP\/1\.1 201/);
    const idIn = (text: string) => /"id":"([^"]+)"/.exec(text)?.[1];
    assert.equal(idIn(second), idIn(first));
  });

  it('is 431 where they are too long together, however short each is', async () => {
    const long = Array.from({ length: 1950 }, (_, n) => `x${n}: abc`);
    assert.deepEqual(await answersTo(['GET /healthz HTTP/1.1', 'host: x', 'connection: close', ...long]), ['431']);
  });
});

describe('A request that says twice or oddly where it goes', () => {
  let api: TestApi;
  before(async () => {
    api = await startTestApi();
  });
  after(() => api.close());

  const get = (...lines: string[]) => exchange(api.url, ['GET /healthz HTTP/1.1', ...lines, 'connection: close']);

  it('is 400 for several hosts or credentials', async () => {
    assert.match(await get('host: a', 'Host: b'), /^HTTP\/1\.1 400 .*several host headers/s);
    const keys = ['authorization: Bearer a', 'Authorization: Bearer b'];
    assert.match(await get('host: a', ...keys), /^HTTP\/1\.1 400 .*several authorization headers/s);
  });

  it('is 400 for a host that is no name or address, and answered for any other', async () => {
    for (const host of ['"><script>', 'localhost:1/x', '[::1', 'a b', 'user@a', 'a:b', '\u00c3\u00bc'])
      assert.match(await get(`host: ${host}`), /^HTTP\/1\.1 400 /, host);
    for (const host of ['localhost', 'my_service:3000', '127.0.0.1:80', '[::1]:3000', 'EXAMPLE.com.', ''])
      assert.match(await get(`host: ${host}`), /^HTTP\/1\.1 200 /, host);
  });
});
