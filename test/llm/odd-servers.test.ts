import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { AssistantBlock } from '../../core/content.ts';
import { ModelError, type ModelErrorKind, type ModelRequest, type ModelResponse } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { completeUsage } from '../../llm/complete-usage.ts';
import { openaiModel } from '../../llm/openai.ts';
import { startFakeHttp, type FakeServer } from '../support/fake-http.ts';
import { ask, modelRequest, WEATHER } from '../support/model-request.ts';

/** What an answer of an odd server is taken for: content (without ids), or an error. */
interface Case {
  name: string;
  send: (response: ServerResponse) => void;
  content?: unknown[];
  stopReason?: string;
  /** Tokens were estimated. */
  estimated?: boolean;
  usage?: Partial<ModelResponse['usage']>;
  thought?: string;
  /** How long the server may be silent, where that is what the case is about. */
  idleMs?: number;
  error?: { kind: ModelErrorKind; message: RegExp; usage?: { input: number; output: number } };
}

const TEXT = [{ type: 'text', text: 'Grüße 🌍' }];
const PARIS = { type: 'tool_use', name: 'weather', input: { city: 'Paris' } };
const ROME = { type: 'tool_use', name: 'weather', input: { city: 'Rome' } };
const COUNTED = { prompt_tokens: 7, completion_tokens: 3 };

const events = (...data: (object | string)[]) =>
  data.map((item) => `data: ${typeof item === 'string' ? item : JSON.stringify(item)}\n\n`).join('');

const stream =
  (body: string | Buffer, type = 'text/event-stream') =>
  (response: ServerResponse) => {
    response.writeHead(200, { 'content-type': type });
    response.end(body);
  };
const json = (body: unknown) => stream(JSON.stringify(body), 'application/json');

/** In pieces of one byte, each a packet of its own. */
const byteByByte = (body: string) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.socket?.setNoDelay(true);
  const bytes = Buffer.from(body);
  const next = (at: number): void => {
    if (at === bytes.length) response.end();
    else response.write(bytes.subarray(at, at + 1), () => setImmediate(next, at + 1));
  };
  next(0);
};

/** The same again and again, as fast as it is taken, until the client is gone. */
const endless = (type: string, body: string) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': type });
  const more = (): void => {
    if (!response.destroyed) response.write(body, more);
  };
  more();
};

/** The answer begins, and then nothing more comes, not even its end. */
const openEnded = (body: string) => (response: ServerResponse) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write(body);
};

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}) => ({
  choices: [{ index: 0, delta, finish_reason }],
  ...more,
});
const SAID = chunk({ content: 'Grüße 🌍' });
const STOP = chunk({}, 'stop');
const END = [STOP, { choices: [], usage: COUNTED }, '[DONE]'];
const called = (...tool_calls: unknown[]) => chunk({ tool_calls });
const weather = (args: unknown, more: object = {}) => ({ ...more, function: { name: 'weather', arguments: args } });
const whole = (message: object, more: object = {}) => ({
  choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: 'stop' }],
  usage: COUNTED,
  ...more,
});
const CALLED = [chunk({}, 'tool_calls'), { choices: [], usage: COUNTED }, '[DONE]'];

const CHAT_COMPLETIONS: Case[] = [
  { name: 'an ordinary stream', send: stream(events(SAID, ...END)), content: TEXT, usage: { input: 7, output: 3 } },
  { name: 'no usage', send: stream(events(SAID, STOP, '[DONE]')), content: TEXT, estimated: true },
  {
    name: 'a usage of nothing',
    send: stream(events(SAID, STOP, { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } }, '[DONE]')),
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a usage that is no count',
    send: json(whole({ content: 'Grüße 🌍' }, { usage: { prompt_tokens: 'many', completion_tokens: -3 } })),
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a usage that nobody can have',
    send: json(whole({ content: 'Grüße 🌍' }, { usage: { prompt_tokens: 1e30, completion_tokens: 1e18 } })),
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a usage in fractions',
    send: json(whole({ content: 'Grüße 🌍' }, { usage: { prompt_tokens: 6.6, completion_tokens: 3 } })),
    content: TEXT,
    usage: { input: 7, output: 3 },
  },
  { name: '[DONE] without a finish reason', send: stream(events(SAID, '[DONE]')), content: TEXT, estimated: true },
  { name: 'a finish reason without [DONE]', send: stream(events(SAID, STOP)), content: TEXT, estimated: true },
  { name: '[DONE], and the connection stays open', send: openEnded(events(SAID, ...END)), content: TEXT },
  {
    name: 'a finish reason, and then silence',
    send: openEnded(events(SAID, STOP)),
    idleMs: 3000,
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a finish reason, and then a broken connection',
    send: (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(events(SAID, STOP), () => response.destroy());
    },
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a finish reason, and then an error',
    send: stream(events(SAID, STOP, { error: { message: 'The engine is overloaded', type: 'server_error' } })),
    content: TEXT,
    estimated: true,
  },
  {
    name: 'a finish reason, and then something else than JSON',
    send: stream(events(SAID, STOP, '{"choices": [')),
    content: TEXT,
    estimated: true,
  },
  {
    name: 'an error as its finish reason, and then the error',
    send: stream(events(SAID, chunk({}, 'error'), { error: { message: 'The engine failed', code: 502 } })),
    error: { kind: 'unavailable', message: /engine failed/ },
  },
  {
    name: 'an error as its finish reason, and no word of it',
    send: stream(events(called(weather('{}', { index: 0, id: 'a' })), chunk({}, 'error'), ...END.slice(1))),
    error: { kind: 'unavailable', message: /ended with an error/, usage: { input: 7, output: 3 } },
  },
  {
    name: 'a whole completion with an error as its finish reason',
    send: json({ choices: [{ message: { content: 'Grüße' }, finish_reason: 'error' }], usage: COUNTED }),
    error: { kind: 'unavailable', message: /ended with an error/, usage: { input: 7, output: 3 } },
  },
  {
    name: 'a finish reason, and then an error as another',
    send: stream(events(SAID, STOP, chunk({}, 'error'), ...END.slice(1))),
    content: TEXT,
    usage: { input: 7, output: 3 },
  },
  {
    name: 'neither a finish reason nor [DONE]',
    send: stream(events(SAID)),
    error: { kind: 'unavailable', message: /broke off/ },
  },
  {
    name: 'a whole completion without a finish reason',
    send: json({ choices: [{ message: { content: 'Grüße 🌍' } }] }),
    content: TEXT,
    estimated: true,
  },
  { name: 'an empty stream', send: stream(''), error: { kind: 'unavailable', message: /broke off/ } },
  {
    name: 'no choices',
    send: json({ choices: [], usage: COUNTED }),
    error: { kind: 'unavailable', message: /broke off/ },
  },
  { name: 'choices of null', send: json({ choices: null }), error: { kind: 'unavailable', message: /broke off/ } },
  { name: 'null content', send: json(whole({ content: null })), content: [], usage: { input: 7, output: 3 } },
  {
    name: 'parts in place of a text',
    send: json(whole({ content: [{ type: 'text', text: 'Grüße ' }, null, { type: 'text', text: '🌍' }] })),
    content: TEXT,
  },
  {
    name: 'reasoning_content beside the answer',
    send: stream(
      events(chunk({ reasoning_content: 'Hm' }), chunk({ reasoning_content: 'm.', content: null }), SAID, ...END),
    ),
    content: [{ type: 'thinking', thinking: 'Hmm.', signature: '' }, ...TEXT],
    thought: 'Hmm.',
  },
  {
    name: 'reasoning alone, under its other name',
    send: json(whole({ content: '', reasoning: 'Hmm.' })),
    content: [{ type: 'thinking', thinking: 'Hmm.', signature: '' }],
    thought: 'Hmm.',
  },
  {
    name: 'arguments as an object',
    send: stream(events(called(weather({ city: 'Paris' }, { index: 0, id: 'a' })), ...CALLED)),
    content: [PARIS],
    stopReason: 'tool_use',
  },
  {
    name: 'arguments as an object, in one piece, with the finish reason of a text',
    send: json(whole({ content: null, tool_calls: [weather({ city: 'Paris' })] })),
    content: [PARIS],
    stopReason: 'tool_use',
  },
  {
    name: 'calls without arguments',
    send: json(whole({ content: null, tool_calls: [weather(null), weather('')] })),
    content: [
      { ...PARIS, input: {} },
      { ...PARIS, input: {} },
    ],
  },
  {
    name: 'calls without ids and indexes, a chunk each',
    send: stream(events(called(weather('{"city":"Paris"}')), called(weather('{"city":"Rome"}')), ...CALLED)),
    content: [PARIS, ROME],
  },
  {
    name: 'two calls of one id',
    send: json(
      whole({
        tool_calls: [
          weather('{"city":"Paris"}', { index: 0, id: 'a' }),
          weather('{"city":"Rome"}', { index: 1, id: 'a' }),
        ],
      }),
    ),
    content: [PARIS, ROME],
  },
  {
    name: 'two calls of one index',
    send: stream(
      events(
        called(weather('{"city":"Paris"}', { index: 0, id: 'a' })),
        called(weather('{"city":"Rome"}', { index: 0, id: 'b' })),
        ...CALLED,
      ),
    ),
    content: [PARIS, ROME],
  },
  {
    name: 'gaps between the indexes of calls',
    send: stream(
      events(
        called(weather('{"city":', { index: 3, id: 'a' })),
        called({ index: 3, function: { arguments: '"Paris"}' } }),
        called(weather('{"city":"Rome"}', { index: 4_000_000_000, id: 'b' })),
        ...CALLED,
      ),
    ),
    content: [PARIS, ROME],
  },
  {
    name: 'calls that are no list',
    send: json(whole({ content: 'Grüße 🌍', tool_calls: {} })),
    content: TEXT,
  },
  {
    name: 'comments, CRLF and fields without a space',
    send: stream(
      `: OPENROUTER PROCESSING\r\n\r\nevent:message\r\nid:1\r\ndata:${JSON.stringify(SAID)}\r\n\r\n: ping\r\n\r\n${events(...END).replaceAll('\n', '\r\n')}`,
    ),
    content: TEXT,
  },
  { name: 'a packet for each byte', send: byteByByte(events(SAID, ...END)), content: TEXT },
  { name: 'a last event without its empty line', send: stream(events(SAID, ...END).trimEnd()), content: TEXT },
  {
    name: 'one delta of two megabytes',
    send: stream(events(chunk({ content: 'x'.repeat(2_000_000) }), ...END)),
    content: [{ type: 'text', text: 'x'.repeat(2_000_000) }],
  },
  {
    name: 'a stream without end',
    send: endless('text/event-stream', events(chunk({ content: 'x'.repeat(1_000_000) }))),
    error: { kind: 'invalid_request', message: /larger than 67108864 bytes/ },
  },
  {
    name: 'an event without end',
    send: endless('text/event-stream', `data: "${'x'.repeat(500_000)}`),
    error: { kind: 'invalid_request', message: /longer than 8388608 bytes/ },
  },
  {
    name: 'JSON without end',
    send: endless('application/json', '"x'.repeat(500_000)),
    error: { kind: 'invalid_request', message: /larger than 67108864 bytes/ },
  },
  {
    name: 'a web page',
    send: stream('<html><body>Welcome</body></html>', 'text/html; charset=utf-8'),
    error: { kind: 'invalid_request', message: /web page.*OPENAI_BASE_URL/ },
  },
  {
    name: 'JSON of something else than a model',
    send: json({ message: 'Welcome' }),
    error: { kind: 'invalid_request', message: /no answer of a model: is OPENAI_BASE_URL the address of its API\?$/ },
  },
  {
    name: 'a completion that says nothing',
    send: json({ choices: [] }),
    error: { kind: 'unavailable', message: /broke off/ },
  },
  {
    name: 'something else than JSON',
    send: stream('Internal trouble, secret 42', 'application/json'),
    error: { kind: 'unavailable', message: /^openai: the server sent something else than a JSON object\.$/ },
  },
  {
    name: 'an event of something else than JSON',
    send: stream(events(SAID, 'trouble, secret 42')),
    error: { kind: 'unavailable', message: /^openai: the server sent something else than a JSON object\.$/ },
  },
  {
    name: 'an error with status 200',
    send: json({ error: { message: 'slow down', type: 'rate_limit_error' } }),
    error: { kind: 'rate_limited', message: /slow down/ },
  },
  {
    name: 'an error in the stream whose code is a status',
    send: stream(events(SAID, { error: { message: 'maximum context length is 4096 tokens', code: 400 } })),
    error: { kind: 'context_too_long', message: /4096/ },
  },
  {
    name: 'an error that is a text',
    send: stream(events({ error: 'out of memory' })),
    error: { kind: 'unavailable', message: /out of memory/ },
  },
];

const start = {
  type: 'message_start',
  message: { type: 'message', model: 'm', content: [], usage: { input_tokens: 7 } },
};
const block = (index: number, content_block: object, ...deltas: object[]) => [
  { type: 'content_block_start', index, content_block },
  ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
  { type: 'content_block_stop', index },
];
const textBlock = (index = 0) => block(index, { type: 'text', text: '' }, { type: 'text_delta', text: 'Grüße 🌍' });
const stopped = (stop_reason: string | null) => ({
  type: 'message_delta',
  delta: { stop_reason },
  usage: { output_tokens: 3 },
});
const MESSAGE_STOP = { type: 'message_stop' };

const MESSAGES: Case[] = [
  {
    name: 'an ordinary stream',
    send: stream(events(start, ...textBlock(), stopped('end_turn'), MESSAGE_STOP)),
    content: TEXT,
    usage: { input: 7, output: 3 },
  },
  {
    name: 'no usage',
    send: json({ type: 'message', content: TEXT, stop_reason: 'end_turn' }),
    content: TEXT,
    estimated: true,
  },
  { name: 'no stop reason', send: stream(events(start, ...textBlock(), MESSAGE_STOP)), content: TEXT, estimated: true },
  {
    name: 'a message in one piece without a stop reason',
    send: json({ type: 'message', content: TEXT, usage: { input_tokens: 7, output_tokens: 3 } }),
    content: TEXT,
  },
  {
    name: 'the end, and the connection stays open',
    send: openEnded(events(start, ...textBlock(), stopped('end_turn'), MESSAGE_STOP)),
    content: TEXT,
  },
  {
    name: 'a stop reason, and then an error',
    send: stream(
      events(start, ...textBlock(), stopped('end_turn'), { type: 'error', error: { type: 'overloaded_error' } }),
    ),
    content: TEXT,
    usage: { input: 7, output: 3 },
  },
  {
    name: 'a stop reason, and then something else than JSON',
    send: stream(events(start, ...textBlock(), stopped('end_turn'), '{"type": "mess')),
    content: TEXT,
    usage: { input: 7, output: 3 },
  },
  {
    name: 'an error before the stop reason',
    send: stream(events(start, ...textBlock(), { type: 'error', error: { type: 'overloaded_error' } })),
    error: { kind: 'overloaded', message: /overloaded/ },
  },
  {
    name: 'neither a stop reason nor the end',
    send: stream(events(start, ...textBlock())),
    error: { kind: 'unavailable', message: /broke off/ },
  },
  {
    name: 'thinking alone',
    send: stream(
      events(
        start,
        ...block(0, { type: 'thinking', thinking: '' }, { type: 'thinking_delta', thinking: 'Hmm.' }),
        stopped('end_turn'),
      ),
    ),
    content: [{ type: 'thinking', thinking: 'Hmm.', signature: '' }],
    thought: 'Hmm.',
  },
  {
    name: 'gaps between the indexes of blocks',
    send: stream(events(start, ...textBlock(4_000_000_000), stopped('end_turn'), MESSAGE_STOP)),
    content: TEXT,
  },
  {
    name: 'blocks without indexes',
    send: stream(
      events(
        start,
        ...[...textBlock(), ...block(1, { type: 'tool_use', name: 'weather', input: { city: 'Rome' } })].map(
          (event) => ({ ...event, index: undefined }),
        ),
        stopped('tool_use'),
      ),
    ),
    content: [...TEXT, ROME],
  },
  {
    name: 'a packet for each byte',
    send: byteByByte(events(start, ...textBlock(), stopped('end_turn'), MESSAGE_STOP)),
    content: TEXT,
  },
  {
    name: 'a web page',
    send: stream('<html></html>', 'text/html'),
    error: { kind: 'invalid_request', message: /web page.*ANTHROPIC_BASE_URL/ },
  },
  {
    name: 'JSON of something else than a model',
    send: json({ message: 'Welcome' }),
    error: {
      kind: 'invalid_request',
      message: /no answer of a model: is ANTHROPIC_BASE_URL the address of its API\?$/,
    },
  },
  {
    name: 'an error with status 200',
    send: json({ type: 'error', error: { type: 'overloaded_error', message: 'busy' } }),
    error: { kind: 'overloaded', message: /busy/ },
  },
];

type Asked = ReturnType<typeof ask>;

for (const { provider, open, cases } of [
  { provider: 'openai', open: openaiModel, cases: CHAT_COMPLETIONS },
  { provider: 'anthropic', open: anthropicModel, cases: MESSAGES },
]) {
  describe(`A server that speaks like ${provider} and answers with`, () => {
    let server: FakeServer | undefined;

    afterEach(async () => {
      await server?.close();
    });

    for (const each of cases) {
      it(`${each.name} is ${each.error ? `called ${each.error.kind}` : 'understood'}, after one request`, async () => {
        server = await startFakeHttp((_request, response) => {
          each.send(response);
          return Promise.resolve();
        });
        const baseUrl = provider === 'openai' ? `${server.url}/v1` : server.url;
        const request = modelRequest({ model: 'local', tools: [WEATHER] });
        const asked = ask(open({ apiKey: 'k', baseUrl, idleMs: each.idleMs }), request);
        if (each.error) await assertFails(asked, each.error);
        else assertUnderstood(each, await completed(asked, request));
        assert.equal(server.requests.length, 1);
      });
    }
  });
}

async function completed(asked: Asked, request: ModelRequest) {
  const { response, ...pieces } = await asked;
  return { response: completeUsage(request, response), ...pieces };
}

async function assertFails(asked: Promise<unknown>, expected: NonNullable<Case['error']>): Promise<void> {
  const { kind, message, usage = {} } = expected;
  await assert.rejects(asked, (error) => {
    assert.ok(error instanceof ModelError, String(error));
    assert.equal(error.kind, kind, error.message);
    assert.match(error.message, message);
    for (const [of, tokens] of Object.entries(usage)) assert.equal({ ...error.usage }[of], tokens, of);
    return true;
  });
}

function assertUnderstood(expected: Case, { response, deltas }: Awaited<Asked>): void {
  assert.deepEqual(response.content.map(withoutId), expected.content);
  const ids = response.content.flatMap((each) => (each.type === 'tool_use' ? [each.id] : []));
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[a-zA-Z0-9_-]{1,64}$/);
  if (expected.stopReason) assert.equal(response.stopReason, expected.stopReason);
  const { usage } = response;
  assert.equal(usage.estimated ?? false, expected.estimated ?? false);
  assert.ok(usage.input > 0 && (usage.output > 0 || response.content.length === 0), JSON.stringify(usage));
  for (const [kind, tokens] of Object.entries(expected.usage ?? {})) assert.equal({ ...usage }[kind], tokens, kind);
  const heard = (type: string) => deltas.map((delta) => (delta.type === type ? delta.text : '')).join('');
  assert.equal(heard('text'), response.content.map((each) => (each.type === 'text' ? each.text : '')).join(''));
  assert.equal(heard('thinking'), expected.thought ?? '');
}

function withoutId(content: AssistantBlock): unknown {
  if (content.type !== 'tool_use') return content;
  const { id: _, ...rest } = content;
  return rest;
}
