import assert from 'node:assert/strict';
import fc from 'fast-check';
import { cleanText } from '../../core/content.ts';
import { createEgress } from '../../tools/egress.ts';
import { callHttp } from '../../tools/http.ts';
import { buildRequest, checkHttpTransport, type HttpTransport } from '../../tools/http-request.ts';
import { createSecretValues, NO_SECRETS } from '../../tools/secret-values.ts';
import { parseTemplate } from '../../tools/template.ts';
import { startServer } from '../support/echo-server.ts';
import { attemptOf, briefly, outputOf } from '../support/tool-attempt.ts';
import { cpuMs } from '../support/cpu-time.ts';

const ENDPOINT = 'https://api.example/v1';
const SECRETS = createSecretValues(new Map([['key', { value: 's3cret-value', hosts: null }]]));

function build(more: Partial<HttpTransport>, args: Record<string, unknown>, secrets = NO_SECRETS) {
  const transport: HttpTransport = { type: 'http', endpoint: ENDPOINT, ...more };
  assert.deepEqual(checkHttpTransport(transport), []);
  return buildRequest(transport, attemptOf(args), secrets);
}

function urlOf(more: Partial<HttpTransport>, args: Record<string, unknown>): URL | undefined {
  const request = build(more, args);
  return 'fault' in request ? undefined : new URL(request.url);
}

/** Whatever a model may write, and what it might write to break out. */
const anything = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom(
    '..',
    '.',
    '%2e%2e',
    '../../admin',
    '//evil.example',
    '\\evil',
    '?a=b',
    '#x',
    '@evil',
    '{{secret:key}}',
    '\r\n',
  ),
);

describe('the request of an HTTP tool', () => {
  it('keeps its host and the shape of its path, whatever is filled in', () => {
    fc.assert(
      fc.property(anything, anything, (a, b) => {
        const url = urlOf({ method: 'GET', path: '/users/{{input.a}}/orders-{{ input.b }}', query: {} }, { a, b });
        if (!url) return;
        assert.equal(url.origin, 'https://api.example');
        assert.equal(url.search + url.hash + url.username, '');
        const segments = url.pathname.split('/').slice(1).map(decodeURIComponent);
        assert.deepEqual(segments, ['v1', 'users', cleanText(a), cleanText(`orders-${b}`)]);
      }),
    );
  });

  it('is none where a part of the path is missing, empty, or would climb', () => {
    for (const id of [undefined, null, '', '.', '..']) {
      assert.ok('fault' in build({ path: '/users/{{input.id}}' }, { id }), String(id));
    }
    assert.ok('fault' in build({ path: '/a/.{{input.id}}/b' }, { id: '.' }));
  });

  it('carries any value in its query, and leaves out what is not there', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        const query = { q: '{{input.text}}', fixed: 'a&b', none: '{{input.none}}', mixed: 'is:{{input.text}}' };
        const url = urlOf({ method: 'GET', query }, { text });
        assert.deepEqual(
          [...(url?.searchParams ?? [])],
          [
            ['q', text],
            ['fixed', 'a&b'],
            ['mixed', `is:${text}`],
          ],
        );
      }),
    );
    const list = urlOf({ method: 'DELETE', query: { id: '{{input.ids}}' } }, { ids: [1, 'b', null] });
    assert.equal(list?.search, '?id=1&id=b');
  });

  it('has a body that keeps the types of what is filled in', () => {
    const body = {
      all: '{{input}}',
      n: '{{input.n}}',
      text: 'n={{input.n}}',
      list: ['{{input.no}}'],
      no: '{{input.no}}',
      1: true,
    };
    const request = build({ body }, { n: 7, o: { p: null } });
    const sent: unknown = 'init' in request ? JSON.parse(request.init.body ?? '') : undefined;
    assert.deepEqual(sent, { all: { n: 7, o: { p: null } }, n: 7, text: 'n=7', list: [null], 1: true });
  });

  it('fills in secrets everywhere but in what the arguments say', () => {
    const request = build(
      {
        headers: { authorization: 'Bearer {{secret:key}}', 'x-said': '{{input.said}}', 'x-none': '{{input.none}}' },
        path: '/{{secret:key}}/{{input.said}}',
        query: { key: '{{secret:key}}', said: '{{input.said}}' },
        body: { key: '{{secret:key}}', said: '{{input.said}}' },
      },
      { said: '{{secret:key}}' },
      SECRETS,
    );
    assert.ok('init' in request);
    const { headers = {}, body = '' } = request.init;
    assert.deepEqual([headers['authorization'], headers['x-said']], ['Bearer s3cret-value', '{{secret:key}}']);
    assert.ok(!('x-none' in headers));
    assert.deepEqual(JSON.parse(body), { key: 's3cret-value', said: '{{secret:key}}' });
    const url = new URL(request.url);
    assert.equal(decodeURIComponent(url.pathname), '/v1/s3cret-value/{{secret:key}}');
    assert.equal(url.searchParams.get('said'), '{{secret:key}}');
  });

  it('sees own properties of the arguments only', () => {
    const body = {
      a: '{{input.constructor.name}}',
      b: '{{input.__proto__}}',
      c: '{{input.list.length}}',
      d: '{{input.list.0}}',
    };
    const request = build({ body }, { list: ['x'] });
    assert.deepEqual('init' in request && JSON.parse(request.init.body ?? ''), { c: 1, d: 'x' });
  });

  it('is refused at registration where a template cannot be read or could change the host', () => {
    const faults = (more: Partial<HttpTransport>) =>
      checkHttpTransport({ type: 'http', endpoint: ENDPOINT, ...more }).map(({ path }) => path);
    assert.deepEqual(faults({ endpoint: 'https://{{input.host}}/' }), ['endpoint']);
    assert.deepEqual(faults({ endpoint: 'https://x.example/%7B%7Binput.a}}' }), ['endpoint']);
    assert.deepEqual(faults({ headers: { a: '{{env.HOME}}' }, query: { b: '{{input.x' } }), ['headers.a', 'query.b']);
    assert.deepEqual(faults({ body: { deep: [{ x: '{{}}' }] } }), ['body']);
    for (const path of ['users', '/a?b', '/a#b', '/a b', '/../x', '/%2e%2E/x', '/ä', '/a\\b']) {
      assert.deepEqual(faults({ path }), ['path'], path);
    }
    assert.deepEqual(faults({ method: 'GET', body: {} }), ['body']);
    assert.deepEqual(faults({ response: { expression: '$sum(' } }), ['response.expression']);
  });
});

describe('parseTemplate', () => {
  it('reads any text in little time, and either as it is or with a fault', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[{}a.:secretinput ]{0,200}$/)), (text) => {
        const parts = parseTemplate(text);
        if ('fault' in parts) return;
        const back = parts.map((part) =>
          'text' in part
            ? part.text
            : 'secret' in part
              ? `{{secret:${part.secret}}}`
              : `{{${['input', ...part.input].join('.')}}}`,
        );
        assert.equal(back.join(''), text.replaceAll(/\{\{\s*([^{}]*?)\s*\}\}/g, '{{$1}}'));
      }),
    );
    const startedMs = cpuMs();
    for (const bomb of ['{{'.repeat(100_000), '{{input.'.repeat(50_000), `{{input${'.a'.repeat(100_000)}}}`])
      parseTemplate(bomb);
    assert.ok(cpuMs() - startedMs < 1000);
  });
});

describe('the answer of an HTTP tool', () => {
  it('is mapped, cut off at its limit, and not followed to where a secret must not go', async () => {
    const other = await startServer((_request, response) => response.end('"there"'));
    const server = await startServer(({ path }, response) => {
      if (path === '/away') return response.writeHead(307, { location: `${other.url}/x` }).end();
      response.writeHead(200, { 'content-type': 'application/json' });
      if (path.startsWith('/echo'))
        return response.end(JSON.stringify({ echoed: new URLSearchParams(path.split('?')[1]).get('key') }));
      return response.end(
        path === '/deep' ? `${'['.repeat(50_000)}${']'.repeat(50_000)}` : '{"items":[{"n":1},{"n":2}]}',
      );
    });
    const egress = createEgress({ allow: [], allowLoopback: true });
    const call = (more: Partial<HttpTransport>) =>
      callHttp({ type: 'http', endpoint: server.url, ...more }, attemptOf({}), { egress, secrets: SECRETS });
    assert.deepEqual(outputOf(await call({ response: { expression: '{"sum": $sum(items.n)}' } })), { sum: 3 });
    assert.equal(outputOf(await call({ response: { expression: 'nothing' } })), null);
    const failed = await call({ response: { expression: '$number(items)' } });
    assert.equal(briefly(failed), 'error response-mapping');
    assert.deepEqual(failed.kind === 'error' && failed.output, { items: [{ n: 1 }, { n: 2 }] });
    const spelt = { expression: '$join($split(echoed, ""), "-")' };
    assert.equal(
      outputOf(await call({ query: { key: '{{secret:key}}' }, path: '/echo', response: spelt })),
      '[-s-e-c-r-e-t-]',
    );
    assert.equal(briefly(await call({ path: '/deep', response: spelt })), 'error response-mapping');
    const endless = await call({ response: { expression: '($f := function($x) { $f($x + 1) }; $f(1))' } });
    assert.equal(briefly(endless), 'error response-mapping');
    assert.equal(briefly(await call({ max_bytes: 10 })), 'error egress-too-large');
    assert.equal(outputOf(await call({ path: '/away' })), 'there');
    assert.equal(briefly(await call({ path: '/away', max_redirects: 0 })), 'error egress-too-many-redirects');
    assert.equal(briefly(await call({ path: '/away', body: { k: '{{secret:key}}' } })), 'error egress-refused');
    assert.equal(other.seen.length, 1);
    await server.close();
    await other.close();
  });
});
