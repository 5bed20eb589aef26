import assert from 'node:assert/strict';
import type { Message } from '../../core/content.ts';
import { ModelError } from '../../core/model.ts';
import type { ModelErrorKind } from '../../core/model.ts';
import { openaiModel } from '../../llm/openai.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { startFakeOpenAI } from '../support/fake-openai.ts';
import type { OpenAIReply } from '../support/fake-openai.ts';
import { ask, modelRequest, userText, WEATHER } from '../support/model-request.ts';

describe('openaiModel', () => {
  let server: FakeServer | undefined;

  afterEach(async () => {
    await server?.close();
  });

  async function connect(
    script: (request: object, n: number) => OpenAIReply,
    limits: { timeoutMs?: number; idleMs?: number } = {},
  ) {
    server = await startFakeOpenAI(script);
    const stream = openaiModel({ apiKey: 'sk-test', baseUrl: `${server.url}/v1`, ...limits });
    return { stream, requests: server.requests };
  }

  const request = (parts: Parameters<typeof modelRequest>[0] = {}) => modelRequest({ model: 'gpt-4.1', ...parts });

  it('streams text and counts cached and reasoning tokens on their own', async () => {
    const { stream, requests } = await connect(() => ({
      text: 'Good morning to you',
      model: 'gpt-4.1-2025-04-14',
      usage: {
        prompt_tokens: 100,
        completion_tokens: 30,
        prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
        completion_tokens_details: { reasoning_tokens: 12 },
      },
    }));
    const { response, deltas } = await ask(stream, request({ temperature: 0.3 }));
    assert.deepEqual(response.content, [{ type: 'text', text: 'Good morning to you' }]);
    assert.equal(deltas.length, 4);
    assert.equal(response.stopReason, 'end_turn');
    assert.equal(response.model, 'gpt-4.1-2025-04-14');
    assert.deepEqual(response.usage, {
      input: 30,
      output: 30,
      thinking: 12,
      cache_read: 60,
      cache_write_5m: 10,
      cache_write_1h: 0,
    });
    const body = requests[0]?.body ?? {};
    assert.deepEqual(body['stream_options'], { include_usage: true });
    assert.deepEqual(body['messages'], [
      { role: 'system', content: 'You help.' },
      { role: 'user', content: [{ type: 'text', text: 'Hello' }] },
    ]);
    assert.equal(body['max_completion_tokens'], 500);
    assert.equal(body['temperature'], 0.3);
  });

  it('tells of calls while their arguments are written, and which of the answer they are', async () => {
    const calls = [
      { id: 'call_1', name: 'weather', arguments: '{"city":"Rome","days":2}' },
      { id: 'call_2', name: 'now', arguments: '' },
    ];
    const { stream } = await connect((_, n) => ({ calls, withoutIndex: n === 1 }));
    for (const withoutIndex of [false, true]) {
      const { written } = await ask(stream, request());
      const of = (place: number) => written.filter((piece) => piece.place === place);
      assert.deepEqual(new Set(of(0).map(({ tool }) => tool)), new Set(['weather']));
      assert.equal(
        of(0).reduce((sum, { text }) => sum + text, ''),
        calls[0]?.arguments,
      );
      assert.deepEqual(of(1), [{ type: 'arguments', tool: 'now', place: 1, text: '' }]);
      assert.equal(of(0).length, withoutIndex ? 1 : 3);
    }
  });

  it('puts the pieces of tool calls together', async () => {
    const { stream, requests } = await connect(() => ({
      text: 'Two cities.',
      calls: [
        { id: 'call_a', name: 'weather', arguments: '{"city":"Paris","day":1}' },
        { id: 'call_b', name: 'weather', arguments: '' },
      ],
    }));
    const { response } = await ask(stream, request({ tools: [WEATHER] }));
    assert.deepEqual(response.content, [
      { type: 'text', text: 'Two cities.' },
      { type: 'tool_use', id: 'call_a', name: 'weather', input: { city: 'Paris', day: 1 } },
      { type: 'tool_use', id: 'call_b', name: 'weather', input: {} },
    ]);
    assert.equal(response.stopReason, 'tool_use');
    assert.deepEqual(requests[0]?.body['tools'], [
      {
        type: 'function',
        function: { name: 'weather', description: WEATHER.description, parameters: WEATHER.input_schema },
      },
    ]);
    assert.equal(requests[0]?.body['tool_choice'], 'auto');
  });

  it('keeps arguments that are no JSON object as raw text', async () => {
    const { stream } = await connect(() => ({
      calls: [
        { id: 'a', name: 'weather', arguments: '{"city": Paris}' },
        { id: 'b', name: 'weather', arguments: '[1]' },
        { id: 'c', name: 'weather', arguments: '{"city": [1e400]}' },
        { id: 'd', name: 'weather', arguments: '{"account": 9007199254740993}' },
        {
          id: 'e',
          name: 'weather',
          arguments: '{"n": [9007199254740991, -12, 1e300, 0.5], "s": "12345678901234567890"}',
        },
      ],
    }));
    const { response } = await ask(stream, request({ tools: [WEATHER] }));
    assert.deepEqual(
      response.content.map((block) => (block.type === 'tool_use' ? block.input : undefined)),
      [
        { _raw: '{"city": Paris}' },
        { _raw: '[1]' },
        { _raw: '{"city": [1e400]}' },
        { _raw: '{"account": 9007199254740993}' },
        { n: [9007199254740991, -12, 1e300, 0.5], s: '12345678901234567890' },
      ],
    );
  });

  for (const withoutIndex of [false, true]) {
    it(`gives calls ids of their own where they lack them${withoutIndex ? ' and come without index' : ''}`, async () => {
      const { stream } = await connect(() => ({
        withoutIndex,
        calls: ['x', 'y'].map((city, n) => ({
          name: 'weather',
          arguments: JSON.stringify({ city }),
          ...(withoutIndex && { id: `functions.weather:${n}` }),
        })),
      }));
      const { response } = await ask(stream, request({ tools: [WEATHER] }));
      const calls = response.content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
      assert.deepEqual(
        calls.map((call) => call.input),
        [{ city: 'x' }, { city: 'y' }],
      );
      assert.equal(new Set(calls.map((call) => call.id)).size, 2);
      for (const call of calls) assert.match(call.id, /^[a-zA-Z0-9_-]{1,64}$/);
    });
  }

  it('maps calls, results, images and errors, and leaves thinking out', async () => {
    const { stream, requests } = await connect(() => ({ text: 'ok' }));
    const messages: Message[] = [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
          { type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'secret plan', signature: 's' },
          { type: 'tool_use', id: 'call_a', name: 'weather', input: { city: 'Paris' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_a', content: 'no', is_error: true }] },
      userText('And now?'),
    ];
    await ask(stream, request({ messages, tools: [WEATHER], toolChoice: { tool: 'weather' } }));
    assert.deepEqual(requests[0]?.body['messages'], [
      { role: 'system', content: 'You help.' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
        ],
      },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_a', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }],
      },
      { role: 'tool', tool_call_id: 'call_a', content: 'Error: no' },
      { role: 'user', content: [{ type: 'text', text: 'And now?' }] },
    ]);
    assert.deepEqual(requests[0]?.body['tool_choice'], { type: 'function', function: { name: 'weather' } });
  });

  it('sends a server its reasoning back while the calls of a turn go on, and OpenAI nothing of it', async () => {
    const { stream, requests } = await connect(() => ({ text: 'ok' }));
    const thought = (thinking: string) => ({ type: 'thinking' as const, thinking, signature: '' });
    const called = (id: string) => ({ type: 'tool_use' as const, id, name: 'weather', input: {} });
    const result = (id: string) => ({ type: 'tool_result' as const, tool_use_id: id, content: 'rain' });
    const foreign = { type: 'thinking' as const, thinking: 'sealed', signature: 's' };
    const messages: Message[] = [
      userText('first'),
      { role: 'assistant', content: [thought('old'), called('a')] },
      { role: 'user', content: [result('a')] },
      { role: 'assistant', content: [{ type: 'text', text: 'done' }] },
      userText('second'),
      { role: 'assistant', content: [thought('new'), foreign, called('b')] },
      { role: 'user', content: [result('b')] },
    ];
    for (const model of ['deepseek-reasoner', 'gpt-5.6-terra']) await ask(stream, request({ model, messages }));
    const reasoning = requests.map(({ body }) =>
      (body['messages'] as Record<string, unknown>[]).flatMap((message) => message['reasoning_content'] ?? []),
    );
    assert.deepEqual(reasoning, [['new'], []]);
  });

  it('sends the images of a result after it, as the user, to models that are known to take them', async () => {
    const { stream, requests } = await connect(() => ({ text: 'ok' }));
    const image = {
      type: 'image' as const,
      source: { type: 'base64' as const, media_type: 'image/png', data: 'iVBORw0KGgo=' },
    };
    const messages: Message[] = [
      userText('a'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'call_a', name: 'weather', input: {} }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'call_a', content: [{ type: 'text', text: 'map' }, image] }],
      },
    ];
    for (const model of ['gpt-4o', 'o3-mini', 'mistral'])
      await ask(stream, request({ model, messages, tools: [WEATHER] }));
    const sent = requests.map(({ body }) => (body['messages'] as unknown[]).slice(3));
    assert.deepEqual(sent[0], [
      { role: 'tool', tool_call_id: 'call_a', content: 'map\n[image: see the next message]' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Image of the result call_a:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        ],
      },
    ]);
    const named = 'map\n[image/png left out: this model takes no such images from tools]';
    for (const other of sent.slice(1)) {
      assert.deepEqual(other, [{ role: 'tool', tool_call_id: 'call_a', content: named }]);
    }
  });

  it('leaves out what reasoning models refuse, and speaks to other servers in the older words', async () => {
    const { stream, requests } = await connect(() => ({ text: 'ok' }));
    const parts = { temperature: 0.5, tools: [WEATHER] };
    await ask(stream, request({ ...parts, model: 'gpt-5.6-terra' }));
    await ask(stream, request({ ...parts, model: 'qwen3-32b' }));
    const [own, other] = requests.map((sent) => sent.body);
    assert.equal(own?.['temperature'], undefined);
    assert.equal(own?.['reasoning_effort'], 'none');
    assert.equal(other?.['temperature'], 0.5);
    assert.equal(other?.['max_tokens'], 500);
    assert.equal(other?.['max_completion_tokens'], undefined);
    assert.equal(other?.['reasoning_effort'], undefined);
  });

  it('reads an answer that comes as JSON although a stream was asked for', async () => {
    const { stream } = await connect(() => ({ json: true, text: 'whole', usage: { prompt_tokens: 3 } }));
    const { response } = await ask(stream, request());
    assert.deepEqual(response.content, [{ type: 'text', text: 'whole' }]);
    assert.equal(response.usage.input, 3);
  });

  it('maps the finish reasons', async () => {
    const reason = async (reply: OpenAIReply) => {
      const { stream } = await connect(() => reply);
      const { response } = await ask(stream, request());
      await server?.close();
      return response.stopReason;
    };
    assert.equal(await reason({ text: 'a', finish_reason: 'length' }), 'max_tokens');
    assert.equal(await reason({ text: 'a', finish_reason: 'content_filter' }), 'refusal');
    assert.equal(await reason({ refusal: 'I will not.' }), 'refusal');
    assert.equal(await reason({ text: 'a', finish_reason: 'eos' }), 'end_turn');
    assert.equal(await reason({ calls: [{ id: 'a', name: 'b', arguments: '{}' }], finish_reason: 'stop' }), 'tool_use');
  });

  const cases: [string, OpenAIReply, ModelErrorKind][] = [
    ['429', { error: { status: 429, type: 'requests', code: 'rate_limit_exceeded', retryAfter: 3 } }, 'rate_limited'],
    ['no credit', { error: { status: 429, type: 'insufficient_quota', code: 'insufficient_quota' } }, 'authentication'],
    ['503', { error: { status: 503, type: 'server_error', message: 'currently overloaded' } }, 'overloaded'],
    ['500', { error: { status: 500, type: 'server_error' } }, 'unavailable'],
    ['401', { error: { status: 401, type: 'invalid_request_error', code: 'invalid_api_key' } }, 'authentication'],
    ['404', { error: { status: 404, type: 'invalid_request_error', code: 'model_not_found' } }, 'unknown_model'],
    [
      'a long context',
      { error: { status: 400, type: 'invalid_request_error', code: 'context_length_exceeded' } },
      'context_too_long',
    ],
    ['an error in mid-stream', { text: 'half', error: { type: 'server_error', midStream: true } }, 'unavailable'],
    ['a broken connection', { text: 'half', breakOff: true }, 'unavailable'],
  ];
  for (const [name, reply, kind] of cases) {
    it(`calls ${name} ${kind}, after one attempt`, async () => {
      const { stream, requests } = await connect(() => reply);
      await assert.rejects(ask(stream, request()), (error) => {
        assert.ok(error instanceof ModelError, String(error));
        assert.equal(error.kind, kind);
        assert.equal(error.retryAfterMs, reply.error?.retryAfter === undefined ? undefined : 3000);
        return true;
      });
      assert.equal(requests.length, 1);
    });
  }

  it('gives up on a slow server and on a silent stream, and stops on abort', async () => {
    const slow = await connect(() => ({ delayMs: 20_000 }), { timeoutMs: 100 });
    await assert.rejects(ask(slow.stream, request()), { kind: 'timeout' });
    await server?.close();
    const silent = await connect(() => ({ text: 'half', hang: true }), { idleMs: 100 });
    await assert.rejects(ask(silent.stream, request()), { kind: 'timeout' });
    await server?.close();
    const { stream } = await connect(() => ({ text: 'half', hang: true }));
    const controller = new AbortController();
    const call = stream(request(), { signal: controller.signal, onDelta: () => controller.abort() });
    await assert.rejects(call, { kind: 'aborted' });
  });
});
