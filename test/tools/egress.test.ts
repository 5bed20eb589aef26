import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { EgressError } from '../../tools/egress-error.ts';
import type { EgressCode } from '../../tools/egress-error.ts';
import { createEgress } from '../../tools/egress.ts';
import type { EgressInit, EgressOptions } from '../../tools/egress.ts';
import { closedPort, startServer } from '../support/echo-server.ts';
import type { LocalServer } from '../support/echo-server.ts';
import { waitUntil } from '../support/wait-until.ts';

function fetchWith(options: Partial<EgressOptions>, url: string, init: Partial<EgressInit> = {}) {
  const egress = createEgress({ allow: [], allowLoopback: false, ...options });
  return egress.fetch(url, { maxBytes: 100_000, timeoutMs: 10_000, signal: new AbortController().signal, ...init });
}

async function failure(work: Promise<unknown>): Promise<EgressError> {
  const error = await work.then(
    () => assert.fail('it was let through'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof EgressError, String(error));
  return error;
}

async function assertFails(work: Promise<unknown>, code: EgressCode, sent: boolean): Promise<EgressError> {
  const error = await failure(work);
  assert.deepEqual({ code: error.code, sent: error.sent }, { code, sent }, error.message);
  return error;
}

describe('createEgress', () => {
  let server: LocalServer;
  let other: LocalServer;

  beforeEach(async () => {
    other = await startServer((_request, response) => response.end('other'));
    server = await startServer((request, response) => {
      const [, verb = '', rest = ''] = /^\/(\w*)\/?(.*)$/.exec(request.path) ?? [];
      if (verb === 'to') response.writeHead(302, { location: decodeURIComponent(rest) }).end();
      else if (verb === 'status') response.writeHead(Number(rest), { location: `${other.url}/x` }).end();
      else if (verb === 'loop') response.writeHead(302, { location: '/loop' }).end();
      else if (verb === 'large') response.end('x'.repeat(Number(rest)));
      else if (verb === 'gzip')
        response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('y'.repeat(Number(rest))));
      else if (verb === 'endless') response.write('a');
      else if (verb === 'reset') request.socket.destroy();
      else if (verb !== 'silent') response.end('hello');
    });
  });
  afterEach(async () => {
    await server.close();
    await other.close();
  });

  const loopback = { allowLoopback: true };

  it('fetches from an allowed address and gives status, headers and body', async () => {
    const response = await fetchWith(loopback, `${server.url}/`);
    assert.deepEqual([response.status, response.body.toString(), response.url], [200, 'hello', `${server.url}/`]);
  });

  describe('refuses to reach a private address', () => {
    const forms = [
      '127.0.0.1',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '127.1',
      '0',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::127.0.0.1]',
      'localhost',
      'LOCALHOST',
      '１２７.0.0.1',
      '127。0。0。1',
      '[::]',
    ];
    for (const host of forms) {
      it(`written as ${host}`, async () => {
        await assertFails(fetchWith({}, `http://${host}:${server.port}/`), 'refused', false);
        assert.equal(server.seen.length, 0);
      });
    }

    for (const host of ['169.254.169.254', '[fd00:ec2::254]', '10.0.0.1', '[64:ff9b::a9fe:a9fe]', '100.100.100.200']) {
      it(`even where loopback is allowed: ${host}`, async () => {
        await assertFails(fetchWith(loopback, `http://${host}/latest/meta-data`), 'refused', false);
      });
    }

    it('behind a name', async () => {
      const lookup = () => Promise.resolve([{ address: '127.0.0.1' }, { address: '::1' }]);
      const error = await assertFails(fetchWith({ lookup }, `http://inside.test:${server.port}/`), 'refused', false);
      assert.match(error.message, /inside\.test/);
      assert.match(error.message, /DROVER_EGRESS_ALLOW=inside\.test/);
      assert.doesNotMatch(error.message, /127\.0\.0\.1/, 'what the name stands for is not given away');
    });

    it('behind a redirect', async () => {
      const target = encodeURIComponent('http://169.254.169.254/latest');
      const error = await assertFails(fetchWith(loopback, `${server.url}/to/${target}`), 'refused', true);
      assert.match(error.message, /169\.254\.169\.254/);
    });

    it('behind a redirect to a name', async () => {
      const lookup = (name: string) =>
        Promise.resolve([{ address: name === 'outside.test' ? '127.0.0.1' : '127.0.0.2' }]);
      const allow = ['127.0.0.1'];
      const target = encodeURIComponent(`http://inside.test:${other.port}/`);
      await assertFails(
        fetchWith({ allow, lookup }, `http://outside.test:${server.port}/to/${target}`),
        'refused',
        true,
      );
      assert.equal(other.seen.length, 0);
    });
  });

  it('connects to the address that was checked, though the name means another one by then', async () => {
    const answers = ['127.0.0.1', '127.0.0.2', '127.0.0.2'];
    let asked = 0;
    const lookup = () => Promise.resolve([{ address: answers[asked++] ?? '' }]);
    const options = { allow: ['127.0.0.1/32'], lookup };
    const response = await fetchWith(options, `http://rebinding.test:${server.port}/`);
    assert.equal(response.body.toString(), 'hello');
    assert.equal(asked, 1, 'the name is resolved once');
    assert.equal(server.seen[0]?.headers.host, `rebinding.test:${server.port}`, 'the server sees the name');
    await assertFails(fetchWith(options, `http://rebinding.test:${server.port}/`), 'refused', false);
    assert.equal(server.seen.length, 1);
  });

  it('passes over the private ones of a name with several addresses', async () => {
    const lookup = () => Promise.resolve([{ address: '10.0.0.1' }, { address: '127.0.0.1' }]);
    const response = await fetchWith({ ...loopback, lookup }, `http://mixed.test:${server.port}/`);
    assert.equal(response.status, 200);
  });

  it('tries the next address where nothing listens on the first', async () => {
    const lookup = () => Promise.resolve([{ address: '127.0.0.3' }, { address: '127.0.0.1' }]);
    const response = await fetchWith({ ...loopback, lookup }, `http://two.test:${server.port}/`);
    assert.equal(response.status, 200);
  });

  for (const url of ['ftp://example.com/', 'file:///etc/passwd', 'data:text/plain,hi', 'gopher://example.com/']) {
    it(`refuses ${url}`, () => assertFails(fetchWith(loopback, url), 'refused', false));
  }

  it('refuses a URL with a password, without repeating it', async () => {
    const error = await assertFails(fetchWith(loopback, 'http://me:s3cret@127.0.0.1/'), 'refused', false);
    assert.doesNotMatch(error.message, /s3cret/);
  });

  it('refuses ports that belong to other protocols', () =>
    assertFails(fetchWith(loopback, 'http://127.0.0.1:25/'), 'refused', false));

  it('says that a text is no URL', () => assertFails(fetchWith(loopback, 'not a url'), 'bad-request', false));

  it('refuses an illegal header without showing its value', async () => {
    const error = await assertFails(
      fetchWith(loopback, server.url, { headers: { 'x-key': 'top\nsecret' } }),
      'bad-request',
      false,
    );
    assert.match(error.message, /x-key/);
    assert.doesNotMatch(error.message, /secret/);
    await assertFails(fetchWith(loopback, server.url, { headers: { Host: 'other.test' } }), 'bad-request', false);
    assert.equal(server.seen.length, 0);
  });

  it('keeps headers on a redirect to the same origin, and drops all that may be keys on one to another', async () => {
    const headers = { authorization: 'Bearer k', cookie: 'c=1', 'x-api-key': 'k', accept: 'text/plain' };
    await fetchWith(loopback, `${server.url}/to/%2Fhere`, { headers });
    assert.equal(server.seen[1]?.headers.authorization, 'Bearer k');
    await fetchWith(loopback, `${server.url}/to/${encodeURIComponent(other.url)}`, { headers });
    const last = other.seen[0]?.headers ?? {};
    assert.deepEqual([last.authorization, last.cookie, last['x-api-key']], [undefined, undefined, undefined]);
    assert.equal(last.accept, 'text/plain');
  });

  it('turns a POST into a GET on 302 and 303, and repeats it on 307 and 308', async () => {
    const init = { method: 'POST', body: '{"a":1}', headers: { 'content-type': 'application/json' } };
    const got: string[] = [];
    for (const status of [302, 303, 307, 308]) {
      await fetchWith(loopback, `${server.url}/status/${status}`, init);
      const last = other.seen.at(-1);
      got.push(`${last?.method} ${last?.body} ${last?.headers['content-type'] ?? ''}`);
    }
    assert.deepEqual(got, ['GET  ', 'GET  ', 'POST {"a":1} application/json', 'POST {"a":1} application/json']);
  });

  it('follows five redirects and no more', async () => {
    await assertFails(fetchWith(loopback, `${server.url}/loop`), 'too-many-redirects', true);
    assert.equal(server.seen.length, 6);
  });

  it('does not follow a status that is no redirect', async () => {
    const response = await fetchWith(loopback, `${server.url}/status/304`);
    assert.equal(response.status, 304);
  });

  it('stops reading an answer that is too large', async () => {
    assert.equal((await fetchWith(loopback, `${server.url}/large/100`, { maxBytes: 100 })).body.length, 100);
    await assertFails(fetchWith(loopback, `${server.url}/large/101`, { maxBytes: 100 }), 'too-large', true);
  });

  it('counts the bytes after decompression', async () => {
    await assertFails(fetchWith(loopback, `${server.url}/gzip/5000000`, { maxBytes: 50_000 }), 'too-large', true);
    const response = await fetchWith(loopback, `${server.url}/gzip/5000`);
    assert.equal(response.body.toString(), 'y'.repeat(5000));
  });

  for (const path of ['silent', 'endless']) {
    it(`gives up in time on a server that is ${path}, and knows that it was reached`, async () => {
      const before = Date.now();
      await assertFails(fetchWith(loopback, `${server.url}/${path}`, { timeoutMs: 300 }), 'timeout', true);
      assert.ok(Date.now() - before < 30_000);
    });

    it(`stops when the caller does while the server is ${path}`, async () => {
      const controller = new AbortController();
      const work = assertFails(
        fetchWith(loopback, `${server.url}/${path}`, { signal: controller.signal }),
        'aborted',
        true,
      );
      await waitUntil('the server has the request', () => server.seen.length > 0);
      controller.abort();
      await work;
    });
  }

  it('knows that nothing was sent when names take too long to resolve', () =>
    assertFails(
      fetchWith({ lookup: () => new Promise(() => undefined) }, 'http://slow.test/', { timeoutMs: 100 }),
      'timeout',
      false,
    ));

  it('knows that nothing was sent to a closed port or an unknown name', async () => {
    await assertFails(fetchWith(loopback, `http://127.0.0.1:${await closedPort()}/`), 'unreached', false);
    const lookup = () => Promise.reject(Object.assign(new Error('getaddrinfo'), { code: 'ENOTFOUND' }));
    const error = await assertFails(fetchWith({ lookup }, 'http://nowhere.test/'), 'unreached', false);
    assert.match(error.message, /nowhere\.test.*ENOTFOUND/);
  });

  it('knows that a request was sent when the connection breaks', () =>
    assertFails(fetchWith(loopback, `${server.url}/reset`), 'lost', true));

  it('counts a refused connection after a redirect as sent: the first server has had the request', async () => {
    const target = encodeURIComponent(`http://127.0.0.1:${await closedPort()}/`);
    await assertFails(fetchWith(loopback, `${server.url}/to/${target}`), 'lost', true);
  });

  for (const interim of ['100 Continue', '102 Processing', '103 Early Hints\r\nlink: </style.css>']) {
    it(`takes the answer behind ${interim.split('\r')[0]}, which nobody has asked for`, async () => {
      const hasty = await startServer(({ socket }) => {
        for (const head of [interim, '100 Continue', interim]) socket.write(`HTTP/1.1 ${head}\r\n\r\n`);
        setImmediate(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello'));
      });
      const init = { method: 'POST', headers: {}, body: '{}', maxBytes: 100, timeoutMs: 30_000 };
      const { signal } = new AbortController();
      const egress = createEgress({ allow: [], ...loopback });
      assert.equal((await egress.fetch(hasty.url, { ...init, signal })).body.toString(), 'hello');
      assert.equal(await (await egress.open(hasty.url, { ...init, maxValues: 10, signal })).text(), 'hello');
      await hasty.close();
    });
  }

  it('uses a fresh connection for each request', async () => {
    await fetchWith(loopback, server.url);
    await fetchWith(loopback, server.url);
    assert.notEqual(server.seen[0]?.socket, server.seen[1]?.socket);
    assert.equal(server.seen[0]?.headers.connection, 'close');
  });
});
