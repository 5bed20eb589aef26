import assert from 'node:assert/strict';
import { ModelError } from '../../core/model.ts';
import type { ModelErrorKind } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { modelErrorOf } from '../../llm/model-errors.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { AnthropicReply } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { ask, modelRequest } from '../support/model-request.ts';

describe('anthropicModel, when it gets no answer', () => {
  let server: FakeServer | undefined;

  afterEach(async () => {
    await server?.close();
  });

  async function failure(
    reply: AnthropicReply,
    limits: { timeoutMs?: number; idleMs?: number } = {},
  ): Promise<ModelError> {
    server = await startFakeAnthropic(() => reply);
    const stream = anthropicModel({ apiKey: 'sk-ant-secret', baseUrl: server.url, ...limits });
    const error: unknown = await ask(stream, modelRequest()).then(
      () => assert.fail('an answer came'),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof ModelError, String(error));
    return error;
  }

  it('says what the provider says, to where it may be written down', async () => {
    for (const said of ['😀', 'a😀', '\ud800 ', '\0'].map((part) => part + part.slice(-2).repeat(1000))) {
      const { message } = modelErrorOf('anthropic', { message: said, status: 400 });
      assert.ok(message.isWellFormed() && !message.includes('\0') && message.length < 1100, message);
    }
  });

  const text = [{ type: 'text', text: 'half' }];
  const cases: [string, AnthropicReply, ModelErrorKind][] = [
    ['429', { error: { status: 429, type: 'rate_limit_error' } }, 'rate_limited'],
    ['529', { error: { status: 529, type: 'overloaded_error' } }, 'overloaded'],
    [
      'an overload in mid-stream',
      { content: text, error: { type: 'overloaded_error', midStream: true } },
      'overloaded',
    ],
    [
      'a rate limit in mid-stream',
      { content: text, error: { type: 'rate_limit_error', midStream: true } },
      'rate_limited',
    ],
    ['an api_error in mid-stream', { content: text, error: { type: 'api_error', midStream: true } }, 'unavailable'],
    ['500', { error: { status: 500, type: 'api_error' } }, 'unavailable'],
    ['502 without a known type', { error: { status: 502, type: 'bad_gateway' } }, 'unavailable'],
    ['504', { error: { status: 504, type: 'timeout_error' } }, 'timeout'],
    ['401', { error: { status: 401, type: 'authentication_error' } }, 'authentication'],
    ['403', { error: { status: 403, type: 'permission_error' } }, 'authentication'],
    ['no credit', { error: { status: 402, type: 'billing_error' } }, 'authentication'],
    [
      'credit that is used up, which is said in words alone,',
      {
        error: {
          status: 400,
          type: 'invalid_request_error',
          message: 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.',
        },
      },
      'authentication',
    ],
    ['an unknown model', { error: { status: 404, type: 'not_found_error' } }, 'unknown_model'],
    [
      'a bad request',
      { error: { status: 400, type: 'invalid_request_error', message: 'max_tokens: wrong' } },
      'invalid_request',
    ],
    [
      'a prompt that is too long',
      { error: { status: 400, type: 'invalid_request_error', message: 'prompt is too long: 210000 tokens > 200000' } },
      'context_too_long',
    ],
    [
      'a prompt that is too long with its answer',
      {
        error: {
          status: 400,
          type: 'invalid_request_error',
          message: 'input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000',
        },
      },
      'context_too_long',
    ],
    ['a body that is too large', { error: { status: 413, type: 'request_too_large' } }, 'context_too_long'],
    ['a connection that breaks in mid-stream', { content: text, breakOff: true }, 'unavailable'],
  ];
  for (const [name, reply, kind] of cases) {
    it(`calls ${name} ${kind}, after one attempt`, async () => {
      const error = await failure(reply);
      assert.equal(error.kind, kind);
      assert.equal(server?.requests.length, 1);
    });
  }

  it('reads how long to wait from retry-after, and from the finer retry-after-ms', async () => {
    const seconds = await failure({ error: { status: 429, type: 'rate_limit_error', retryAfter: 7 } });
    assert.equal(seconds.retryAfterMs, 7000);
    await server?.close();
    const headers = { 'retry-after-ms': '250' };
    const ms = await failure({ error: { status: 429, type: 'rate_limit_error', retryAfter: 7, headers } });
    assert.equal(ms.retryAfterMs, 250);
    await server?.close();
    assert.equal((await failure({ error: { status: 429, type: 'rate_limit_error' } })).retryAfterMs, undefined);
  });

  it('calls a refused connection unavailable, and says where its setting leads, without a password', async () => {
    server = await startFakeAnthropic(() => ({}));
    await server.close();
    const { host } = new URL(server.url);
    const stream = anthropicModel({ apiKey: 'k', baseUrl: `http://user:hidden@${host}/path-of-mine` });
    const message = `anthropic: Connection error. (ECONNREFUSED) Check ANTHROPIC_BASE_URL: it leads to ${host}.`;
    await assert.rejects(ask(stream, modelRequest()), { kind: 'unavailable', message });
  });

  it('says which setting to look at where the address may be wrong', async () => {
    server = await startFakeAnthropic(() => ({}));
    const stream = anthropicModel({ apiKey: 'k', baseUrl: server.url.replace('http:', 'https:') });
    const message = /\(ERR_SSL_WRONG_VERSION_NUMBER\) Check ANTHROPIC_BASE_URL: it leads to 127\.0\.0\.1:\d+\.$/;
    await assert.rejects(ask(stream, modelRequest()), { kind: 'unavailable', message });
  });

  it('gives up on a server that does not begin to answer in time', async () => {
    const error = await failure({ delayMs: 20_000 }, { timeoutMs: 100 });
    assert.equal(error.kind, 'timeout');
    assert.equal(error.transient, true);
  });

  it('gives up on a stream that falls silent', async () => {
    assert.equal((await failure({ content: text, hang: true }, { idleMs: 100 })).kind, 'timeout');
  });

  it('stops at once when the signal fires in mid-stream', async () => {
    server = await startFakeAnthropic(() => ({ content: text, hang: true }));
    const stream = anthropicModel({ apiKey: 'k', baseUrl: server.url });
    const controller = new AbortController();
    const call = stream(modelRequest(), { signal: controller.signal, onDelta: () => controller.abort() });
    await assert.rejects(call, { kind: 'aborted', transient: false });
  });

  it('sends nothing when the signal has fired before', async () => {
    server = await startFakeAnthropic(() => ({ content: text }));
    const stream = anthropicModel({ apiKey: 'k', baseUrl: server.url });
    await assert.rejects(ask(stream, modelRequest(), AbortSignal.abort()), { kind: 'aborted' });
    assert.equal(server.requests.length, 0);
  });

  it('never repeats a key in an error', async () => {
    const message = 'invalid x-api-key: sk-ant-secret';
    const error = await failure({ error: { status: 401, type: 'authentication_error', message } });
    assert.doesNotMatch(`${error.message} ${JSON.stringify(error)} ${String(error.cause)}`, /secret/);
  });
});
