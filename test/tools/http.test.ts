import assert from 'node:assert/strict';
import fc from 'fast-check';
import { createEgress } from '../../tools/egress.ts';
import { callHttp } from '../../tools/http.ts';
import type { HttpRuntime } from '../../tools/http.ts';
import type { HttpTransport } from '../../tools/http-request.ts';
import { createSecretValues, NO_SECRETS } from '../../tools/secret-values.ts';
import type { ToolAttempt } from '../../core/tool.ts';
import { closedPort, startServer } from '../support/echo-server.ts';
import type { LocalServer } from '../support/echo-server.ts';
import { waitUntil } from '../support/wait-until.ts';
import { attemptOf, briefly, messageOf, outputOf } from '../support/tool-attempt.ts';

const egress = createEgress({ allow: [], allowLoopback: true });

describe('callHttp', () => {
  let server: LocalServer;
  let answer: { status: number; headers?: Record<string, string>; body?: string | Buffer };

  beforeEach(async () => {
    answer = { status: 200, headers: { 'content-type': 'application/json' }, body: '{"ok":true}' };
    server = await startServer((request, response) => {
      if (request.path.startsWith('/silent')) return;
      if (request.path.startsWith('/reset')) request.socket.destroy();
      else response.writeHead(answer.status, answer.headers).end(answer.body);
    });
  });
  afterEach(() => server.close());

  const call = (
    more: Partial<HttpTransport> = {},
    attempt: Partial<ToolAttempt> = {},
    runtime: Partial<HttpRuntime> = {},
  ) =>
    callHttp(
      { type: 'http', endpoint: `${server.url}/tool`, ...more },
      attemptOf(attempt.arguments ?? { city: 'Oslo' }, attempt),
      { egress, secrets: NO_SECRETS, ...runtime },
    );

  it('keeps all digits of an integer beyond 2^53, as a string', async () => {
    answer.body = '{"id":9007199254740993,"count":3}';
    assert.deepEqual(outputOf(await call()), { id: '9007199254740993', count: 3 });
  });

  it('posts the input as JSON with the headers that say whose call it is', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    const outcome = await call({ headers: { 'X-Own': 'mine' } }, { idempotencyKey: 'key-1', traceparent });
    assert.deepEqual(outputOf(outcome), { ok: true });
    const [request] = server.seen;
    assert.equal(`${request?.method} ${request?.path}`, 'POST /tool');
    assert.equal(request?.body, '{"city":"Oslo"}');
    const { headers } = request;
    assert.deepEqual(
      ['content-type', 'idempotency-key', 'x-drover-run-id', 'x-drover-tool-call-id', 'traceparent', 'x-own'].map(
        (name) => headers[name],
      ),
      ['application/json', 'key-1', 'run-1', 'call-1', traceparent, 'mine'],
    );
  });

  it("does not let a tool's own headers change whose call it is", async () => {
    await call({ headers: { 'idempotency-KEY': 'forged', 'X-Drover-Run-Id': 'forged' } }, { idempotencyKey: 'key-1' });
    assert.equal(server.seen[0]?.headers['idempotency-key'], 'key-1');
    assert.equal(server.seen[0]?.headers['x-drover-run-id'], 'run-1');
  });

  it('names no run in a direct execution, and no trace where there is none, whatever its arguments fill in', async () => {
    const headers = { 'X-Drover-Run-Id': '{{input.text}}', Traceparent: '{{input.text}}', 'X-Own': '{{input.text}}' };
    await call({ headers }, { runId: '', arguments: { text: 'forged' } });
    const sent = server.seen[0]?.headers ?? {};
    assert.deepEqual([sent['x-drover-run-id'], sent['traceparent'], sent['x-own']], [undefined, undefined, 'forged']);
  });

  for (const method of ['GET', 'DELETE'] as const) {
    it(`puts the input of a ${method} into the query`, async () => {
      await call(
        { method, endpoint: `${server.url}/tool?v=1` },
        { arguments: { q: 'a b&c', list: ['x', 2], deep: { a: 1 }, none: null } },
      );
      const url = new URL(server.seen[0]?.path ?? '', server.url);
      assert.deepEqual(
        [...url.searchParams],
        [
          ['v', '1'],
          ['q', 'a b&c'],
          ['list', 'x'],
          ['list', '2'],
          ['deep', '{"a":1}'],
        ],
      );
      assert.equal(server.seen[0]?.body, '');
    });
  }

  it('carries any text unchanged, in a body and in a query', async () => {
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme', minLength: 1 }), async (text) => {
        await call({}, { arguments: { text } });
        assert.deepEqual(JSON.parse(server.seen.at(-1)?.body ?? ''), { text });
        await call({ method: 'GET' }, { arguments: { text } });
        const { searchParams } = new URL(server.seen.at(-1)?.path ?? '', server.url);
        assert.equal(searchParams.get('text'), text);
      }),
      { numRuns: 30 },
    );
  });

  describe('takes the body for its output', () => {
    const bodies: [string, string | undefined, string, unknown][] = [
      ['JSON', 'application/json; charset=utf-8', '{"a":[1]}', { a: [1] }],
      ['JSON of a named kind', 'application/geo+json', '{"a":1}', { a: 1 }],
      ['JSON without a type', undefined, '{"a":1}', { a: 1 }],
      ['text', 'text/plain', '{"a":1}', '{"a":1}'],
      ['text that claims to be JSON', 'application/json', 'done.', 'done.'],
      ['nothing', undefined, '', null],
    ];
    for (const [what, type, body, output] of bodies) {
      it(what, async () => {
        answer = { status: 201, headers: type === undefined ? {} : { 'content-type': type }, body };
        assert.deepEqual(outputOf(await call()), output);
      });
    }

    const charsets: [string, Buffer, unknown][] = [
      ['text/plain; charset=iso-8859-1', Buffer.from([0xe9]), 'é'],
      ['text/html; charset="windows-1252"', Buffer.from([0x80, 0x20, 0x93]), '€ “'],
      ['application/json;charset=UTF-16LE', Buffer.from('{"a":"é"}', 'utf16le'), { a: 'é' }],
      ['text/csv;charset=shift_jis', Buffer.from([0x93, 0xfa]), '日'],
      ['text/plain; charset=of-nobody', Buffer.from('é'), 'é'],
      ['text/plain', Buffer.from('\ufeffé'), 'é'],
    ];
    for (const [type, body, output] of charsets) {
      it(`in the charset of ${type}`, async () => {
        answer = { status: 200, headers: { 'content-type': type }, body };
        assert.deepEqual(outputOf(await call()), output);
      });
    }
  });

  it('says so when the answer is neither JSON nor text', async () => {
    answer = { status: 200, headers: { 'content-type': 'image/png' }, body: Buffer.from([0x89, 0x50, 0, 0xff]) };
    assert.match(messageOf(await call()), /4 bytes of image\/png, neither JSON nor text/);
  });

  it('never takes for text what is none in its charset', async () => {
    const latin = Buffer.from('caf\xe9', 'latin1');
    for (const type of ['text/plain', 'text/csv; charset=utf-8', 'application/json', 'text/plain; charset=of-nobody']) {
      answer = { status: 200, headers: { 'content-type': type }, body: latin };
      const outcome = await call();
      assert.equal(briefly(outcome), 'error not-text');
      const [media = ''] = type.split(';');
      const why = `4 bytes of ${media}, which are no text in its charset (UTF-8 unless it names one).`;
      assert.equal(messageOf(outcome), `The tool answered with ${why}`);
      answer = { status: 400, headers: { 'content-type': type }, body: latin };
      assert.equal(messageOf(await call()), 'HTTP 400');
    }
  });

  const statuses: [number, Record<string, string>, string][] = [
    [400, {}, 'error http-400'],
    [401, {}, 'error http-401'],
    [404, {}, 'error http-404'],
    [408, {}, 'lost http-408'],
    [409, {}, 'error http-409'],
    [425, {}, 'lost http-425'],
    [429, {}, 'unreached http-429'],
    [500, {}, 'error http-500'],
    [502, {}, 'lost http-502'],
    [503, {}, 'lost http-503'],
    [503, { 'retry-after': '2' }, 'unreached http-503'],
    [504, {}, 'lost http-504'],
  ];
  for (const [status, headers, expected] of statuses) {
    it(`takes ${status} ${JSON.stringify(headers)} for ${expected}`, async () => {
      answer = { status, headers, body: 'why' };
      const outcome = await call();
      assert.equal(briefly(outcome), expected);
      assert.match(messageOf(outcome), new RegExp(`HTTP ${status}: why`));
    });
  }

  it('reads retry-after in seconds and as a date', async () => {
    const wait = async (header: string) => {
      answer = { status: 429, headers: { 'retry-after': header } };
      const outcome = await call();
      return outcome.kind === 'unreached' ? outcome.retryAfterMs : assert.fail(outcome.kind);
    };
    assert.equal(await wait('3'), 3000);
    const ms = await wait(new Date(Date.now() + 60_000).toUTCString());
    assert.ok(ms !== undefined && ms > 50_000 && ms <= 60_000, String(ms));
    assert.equal(await wait(new Date(Date.now() - 60_000).toUTCString()), 0);
    assert.equal(await wait('soon'), undefined);
  });

  it('knows what surely had no effect from what may have had one', async () => {
    assert.equal(briefly(await call({ endpoint: `http://127.0.0.1:${await closedPort()}/` })), 'unreached connection');
    assert.equal(briefly(await call({ endpoint: `${server.url}/reset` })), 'lost lost');
    assert.equal(briefly(await call({ endpoint: `${server.url}/silent` }, { timeoutMs: 200 })), 'lost timeout');
  });

  it('ends as aborted when the caller stops', async () => {
    const controller = new AbortController();
    const outcome = call({ endpoint: `${server.url}/silent` }, { signal: controller.signal });
    await waitUntil('the server has the request', () => server.seen.length > 0);
    controller.abort();
    assert.equal(briefly(await outcome), 'aborted aborted');
  });

  it('shows the refusal of an address as an error, which is not retried', async () => {
    const outcome = await call({ endpoint: 'http://169.254.169.254/' });
    assert.equal(briefly(outcome), 'error egress-refused');
    assert.match(messageOf(outcome), /DROVER_EGRESS_ALLOW/);
  });

  describe('with secrets in its headers', () => {
    const headers = { authorization: 'Bearer {{secret:api_key}}', 'x-two': '{{ secret:a }}-{{secret:b}}' };
    const secretsOf = (values: Record<string, string>) =>
      createSecretValues(new Map(Object.entries(values).map(([name, value]) => [name, { value, hosts: null }])));

    it('fills them in as they are', async () => {
      await call({ headers }, {}, { secrets: secretsOf({ api_key: 's3cret-value', a: '1', b: '$&' }) });
      assert.equal(server.seen[0]?.headers.authorization, 'Bearer s3cret-value');
      assert.equal(server.seen[0]?.headers['x-two'], '1-$&');
    });

    it('does not take the value of one for a reference to another', async () => {
      await call({ headers }, {}, { secrets: secretsOf({ api_key: 'k', a: '{{secret:api_key}}', b: '2' }) });
      assert.equal(server.seen[0]?.headers['x-two'], '{{secret:api_key}}-2');
    });

    it('never shows a value, even one that no header can hold', async () => {
      const outcome = await call({ headers }, {}, { secrets: secretsOf({ api_key: 'bad\r\nvalue', a: '1', b: '2' }) });
      assert.equal(briefly(outcome), 'error egress-bad-request');
      assert.doesNotMatch(messageOf(outcome), /value/);
    });
  });
});
