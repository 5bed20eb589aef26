import assert from 'node:assert/strict';
import type { BetaCompactionIterationUsage } from '@anthropic-ai/sdk/resources/beta/messages/messages';
import type { Message } from '../../core/content.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { AnthropicReply, AnthropicRequest } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { ask, modelRequest, userText, WEATHER } from '../support/model-request.ts';

function toolNames(body: Record<string, unknown> = {}): string[] {
  return (body['tools'] as { name: string }[]).map((tool) => tool.name);
}

describe('anthropicModel', () => {
  let server: FakeServer | undefined;

  afterEach(async () => {
    await server?.close();
  });

  async function connect(script: (request: AnthropicRequest, n: number) => AnthropicReply) {
    server = await startFakeAnthropic(script);
    return { stream: anthropicModel({ apiKey: 'sk-ant-test', baseUrl: server.url }), requests: server.requests };
  }

  it('streams text and returns it whole, with the model that answered', async () => {
    const { stream, requests } = await connect(() => ({
      content: [{ type: 'text', text: 'Good morning' }],
      model: 'claude-sonnet-5-20260630',
    }));
    const { response, deltas } = await ask(stream, modelRequest());
    assert.deepEqual(response.content, [{ type: 'text', text: 'Good morning' }]);
    assert.equal(deltas.length, 2);
    assert.equal(deltas.map((delta) => delta.text).join(''), 'Good morning');
    assert.equal(response.stopReason, 'end_turn');
    assert.equal(response.provider, 'anthropic');
    assert.equal(response.model, 'claude-sonnet-5-20260630');
    assert.equal(requests[0]?.headers.authorization, 'Bearer sk-ant-test');
    assert.equal(requests[0]?.body['stream'], true);
    assert.equal(requests[0]?.body['max_tokens'], 500);
  });

  it('returns tool calls with their arguments', async () => {
    const { stream } = await connect(() => ({
      content: [
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Paris' } },
        { type: 'tool_use', id: 'toolu_2', name: 'weather', input: {} },
      ],
    }));
    const { response } = await ask(stream, modelRequest({ tools: [WEATHER] }));
    assert.equal(response.stopReason, 'tool_use');
    assert.deepEqual(response.content.slice(1), [
      { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Paris' } },
      { type: 'tool_use', id: 'toolu_2', name: 'weather', input: {} },
    ]);
  });

  it('keeps arguments that are not JSON as raw text', async () => {
    const { stream } = await connect(() => ({
      content: [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }],
      rawInput: '{"city": "Par',
      stop_reason: 'max_tokens',
    }));
    const { response } = await ask(stream, modelRequest({ tools: [WEATHER] }));
    assert.deepEqual(response.content, [
      { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { _raw: '{"city": "Par' } },
    ]);
    assert.equal(response.stopReason, 'max_tokens');
  });

  it('gives a call its own id when the id is missing, repeated or taken', async () => {
    const { stream } = await connect(() => ({
      content: ['old', '', 'new', 'new'].map((id) => ({ type: 'tool_use', id, name: 'weather', input: {} })),
    }));
    const messages: Message[] = [
      userText('Hi'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'old', name: 'weather', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'old', content: 'sun' }] },
    ];
    const { response } = await ask(stream, modelRequest({ tools: [WEATHER], messages }));
    const ids = response.content.map((block) => (block.type === 'tool_use' ? block.id : ''));
    assert.equal(new Set([...ids, 'old']).size, 5);
    assert.equal(ids[2], 'new');
  });

  it('returns thinking with its signature and sends it back unchanged', async () => {
    const thinking = { type: 'thinking' as const, thinking: 'Paris, then.', signature: 'c2lnbmVk' };
    const redacted = { type: 'redacted_thinking' as const, data: 'b3BhcXVl' };
    const call = { type: 'tool_use' as const, id: 'toolu_1', name: 'weather', input: { city: 'Paris' } };
    const { stream, requests } = await connect(() => ({ content: [thinking, redacted, call] }));
    const first = await ask(stream, modelRequest({ tools: [WEATHER] }));
    assert.deepEqual(first.response.content, [thinking, redacted, call]);
    assert.equal(first.deltas.map((delta) => (delta.type === 'thinking' ? delta.text : '')).join(''), 'Paris, then.');
    const messages: Message[] = [
      userText('Weather?'),
      { role: 'assistant', content: first.response.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'no', is_error: true }] },
    ];
    await ask(stream, modelRequest({ tools: [WEATHER], messages }));
    const sent = requests[1]?.body['messages'] as { content: unknown[] }[];
    assert.deepEqual(sent[1]?.content, [thinking, redacted, call]);
    assert.deepEqual(sent[2]?.content, [
      {
        type: 'tool_result',
        tool_use_id: 'toolu_1',
        content: 'no',
        is_error: true,
        cache_control: { type: 'ephemeral' },
      },
    ]);
  });

  it('asks once more without thinking blocks when the provider refuses them', async () => {
    const { stream, requests } = await connect((_, n) =>
      n === 0
        ? { error: { status: 400, type: 'invalid_request_error', message: 'Invalid `signature` in `thinking` block' } }
        : { content: [{ type: 'text', text: 'fine' }] },
    );
    const messages: Message[] = [
      userText('One'),
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'x' },
          { type: 'text', text: 'Two' },
        ],
      },
      userText('Three'),
    ];
    const { response } = await ask(stream, modelRequest({ messages }));
    assert.deepEqual(response.content, [{ type: 'text', text: 'fine' }]);
    assert.equal(requests.length, 2);
    assert.doesNotMatch(JSON.stringify(requests[1]?.body), /"thinking"/);
  });

  it('marks system, last tool and last message for the prompt cache', async () => {
    const { stream, requests } = await connect(() => ({ content: [{ type: 'text', text: 'ok' }] }));
    await ask(stream, modelRequest({ tools: [{ ...WEATHER, name: 'first' }, WEATHER] }));
    const cached = { cache_control: { type: 'ephemeral' } };
    const body = requests[0]?.body ?? {};
    assert.deepEqual(body['system'], [{ type: 'text', text: 'You help.', ...cached }]);
    assert.deepEqual(body['tools'], [
      { ...WEATHER, name: 'first' },
      { ...WEATHER, ...cached },
    ]);
    assert.deepEqual(body['messages'], [{ role: 'user', content: [{ type: 'text', text: 'Hello', ...cached }] }]);
  });

  it('joins neighbours of one role, puts results first and drops empty text', async () => {
    const { stream, requests } = await connect(() => ({ content: [{ type: 'text', text: 'ok' }] }));
    const call = { type: 'tool_use' as const, id: 'toolu_1', name: 'weather', input: {} };
    const messages: Message[] = [
      userText('a'),
      userText('b'),
      { role: 'assistant', content: [{ type: 'text', text: ' ' }] },
      { role: 'assistant', content: [call] },
      userText('c'),
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'sun' }] },
    ];
    await ask(stream, modelRequest({ tools: [WEATHER], messages }));
    const sent = requests[0]?.body['messages'] as { role: string; content: { type: string }[] }[];
    assert.deepEqual(
      sent.map((message) => [message.role, ...message.content.map((block) => block.type)]),
      [
        ['user', 'text', 'text'],
        ['assistant', 'tool_use'],
        ['user', 'tool_result', 'text'],
      ],
    );
  });

  it('sends the images of a result as images, and names one of a type that it does not take', async () => {
    const { stream, requests } = await connect(() => ({ content: [{ type: 'text', text: 'ok' }] }));
    const call = { type: 'tool_use' as const, id: 'toolu_1', name: 'weather', input: {} };
    const image = (media_type: string, data = 'iVBORw0KGgo=') => ({
      type: 'image' as const,
      source: { type: 'base64' as const, media_type, data },
    });
    const content = [{ type: 'text' as const, text: 'map' }, image('image/png'), image('image/tiff', 'SUkqAA==')];
    const messages: Message[] = [
      userText('a'),
      { role: 'assistant', content: [call] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content }, ...userText('b').content] },
    ];
    await ask(stream, modelRequest({ tools: [WEATHER], messages }));
    const sent = requests[0]?.body['messages'] as { content: { content: unknown }[] }[];
    assert.deepEqual(sent.at(-1)?.content[0]?.content, [
      { type: 'text', text: 'map' },
      image('image/png'),
      { type: 'text', text: '[image/tiff left out: it is no JPEG, PNG, GIF or WebP image]' },
    ]);
  });

  it('forces a tool where the model allows it, and asks for it where it does not', async () => {
    const { stream, requests } = await connect(() => ({ content: [{ type: 'text', text: 'ok' }] }));
    const parts = { tools: [{ ...WEATHER, name: 'other' }, WEATHER], temperature: 1.5 };
    const send = (model: string) => ask(stream, modelRequest({ ...parts, model, toolChoice: { tool: 'weather' } }));
    await send('claude-haiku-4-5-20251001');
    await send('claude-sonnet-5-5');
    const [older, later] = requests.map((request) => request.body);
    assert.deepEqual(older?.['tool_choice'], { type: 'tool', name: 'weather' });
    assert.equal(older?.['temperature'], 1);
    assert.deepEqual(later?.['tool_choice'], { type: 'auto' });
    assert.equal(later?.['temperature'], undefined);
    assert.deepEqual(toolNames(later), ['weather']);
    assert.match(JSON.stringify(later?.['system']), /one call of the tool `weather`/);
  });

  it('declares the tools of the conversation when the request has none, so that the history stays valid', async () => {
    const { stream, requests } = await connect(() => ({ content: [{ type: 'text', text: 'ok' }] }));
    const messages: Message[] = [
      userText('a'),
      { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'sun' }] },
    ];
    await ask(stream, modelRequest({ messages }));
    assert.deepEqual(requests[0]?.body['tool_choice'], { type: 'none' });
    assert.deepEqual(toolNames(requests[0]?.body), ['weather']);
  });

  it('waits for a model that pings while it thinks, however long the silence otherwise allowed', async () => {
    server = await startFakeAnthropic(() => ({
      pings: { count: 6, everyMs: 100 },
      content: [{ type: 'text', text: 'at last' }],
    }));
    const stream = anthropicModel({ apiKey: 'k', baseUrl: server.url, idleMs: 400 });
    const { response } = await ask(stream, modelRequest());
    assert.deepEqual(response.content, [{ type: 'text', text: 'at last' }]);
  });

  it('counts every kind of token', async () => {
    const { stream } = await connect(() => ({
      content: [{ type: 'text', text: 'ok' }],
      usage: {
        input_tokens: 11,
        output_tokens: 22,
        cache_read_input_tokens: 33,
        cache_creation_input_tokens: 99,
        cache_creation: { ephemeral_5m_input_tokens: 44, ephemeral_1h_input_tokens: 55 },
        output_tokens_details: { thinking_tokens: 6 },
      },
    }));
    const { response } = await ask(stream, modelRequest());
    assert.deepEqual(response.usage, {
      input: 11,
      output: 22,
      thinking: 6,
      cache_read: 33,
      cache_write_5m: 44,
      cache_write_1h: 55,
    });
  });

  it('counts what the provider has used to compact the conversation, which it leaves out of its sums', async () => {
    const compaction: BetaCompactionIterationUsage = {
      type: 'compaction',
      input_tokens: 3000,
      output_tokens: 500,
      cache_read_input_tokens: 70,
      cache_creation_input_tokens: 40,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 30 },
    };
    const message = { ...compaction, type: 'message', model: null, input_tokens: 11, output_tokens: 22 };
    const { stream } = await connect(() => ({
      content: [{ type: 'text', text: 'ok' }],
      usage: {
        input_tokens: 11,
        output_tokens: 22,
        iterations: [compaction, message, { ...compaction, input_tokens: 1 }],
      },
    }));
    const { response } = await ask(stream, modelRequest());
    assert.deepEqual(response.usage, {
      input: 3012,
      output: 1022,
      thinking: 0,
      cache_read: 140,
      cache_write_5m: 20,
      cache_write_1h: 60,
      compaction: 3221,
    });
  });

  it('counts cache writes of unknown duration as five minutes, and what is not reported as 0', async () => {
    const { stream } = await connect((_, n) => ({
      content: [{ type: 'text', text: 'ok' }],
      usage: n === 0 ? { input_tokens: 1, output_tokens: 2, cache_creation_input_tokens: 7 } : null,
    }));
    const first = await ask(stream, modelRequest());
    assert.equal(first.response.usage.cache_write_5m, 7);
    const second = await ask(stream, modelRequest());
    assert.deepEqual(Object.values(second.response.usage), [0, 0, 0, 0, 0, 0]);
  });

  it('reads an answer that comes as JSON although a stream was asked for', async () => {
    const call = { type: 'tool_use', id: 'toolu_1', name: 'weather', input: { city: 'Rome' } };
    const { stream } = await connect(() => ({ content: [{ type: 'text', text: 'Look:' }, call], json: true }));
    const { response, deltas } = await ask(stream, modelRequest({ tools: [WEATHER] }));
    assert.deepEqual(response.content, [{ type: 'text', text: 'Look:' }, call]);
    assert.deepEqual(deltas, [{ type: 'text', text: 'Look:' }]);
    assert.equal(response.usage.input, 10);
    assert.equal(response.stopReason, 'tool_use');
  });

  it('tells of calls while their arguments are written, and which of the answer they are', async () => {
    const call = (name: string, input: object) => ({ type: 'tool_use', id: `toolu_${name}`, name, input });
    const own = { ...call('web_search', { query: 'x' }), type: 'server_tool_use' };
    const content = [own, call('weather', { city: 'Rome' }), call('now', {})];
    const { stream } = await connect((_, n) => ({ content, json: n === 1 }));
    for (const json of [false, true]) {
      const { written } = await ask(stream, modelRequest({ tools: [WEATHER] }));
      const of = (place: number) => written.filter((piece) => piece.place === place);
      const first = (place: number) => of(place)[0]?.tool;
      const text = (place: number) => of(place).reduce((sum, piece) => sum + piece.text, '');
      assert.deepEqual([first(0), text(0)], ['weather', '{"city":"Rome"}']);
      assert.deepEqual([first(1), JSON.parse(text(1) || '{}')], ['now', {}]);
      assert.ok(written.every(({ tool, place }) => (tool === 'web_search') === (place === undefined)));
      if (!json) assert.ok(of(0).length > 2 && of(0)[0]?.text === '');
    }
  });

  for (const reason of ['refusal', 'pause_turn', 'stop_sequence', 'model_context_window_exceeded'] as const) {
    it(`passes the stop reason ${reason} on`, async () => {
      const { stream } = await connect(() => ({ content: [{ type: 'text', text: 'x' }], stop_reason: reason }));
      assert.equal((await ask(stream, modelRequest())).response.stopReason, reason);
    });
  }

  it('takes a stop reason it does not know for the end of the turn', async () => {
    const { stream } = await connect(() => ({ content: [{ type: 'text', text: 'x' }], stop_reason: 'of_later' }));
    assert.equal((await ask(stream, modelRequest())).response.stopReason, 'end_turn');
  });

  it("keeps what the provider's own tools say as it came, unless nobody could store it", async () => {
    const deep = JSON.parse(`${'['.repeat(300)}${']'.repeat(300)}`) as unknown;
    const result = { type: 'web_search_tool_result', tool_use_id: 's', content: [{ url: 'u', extra: { a: 1 } }] };
    const { stream } = await connect(() => ({
      content: [
        { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
        result,
        { ...result, content: deep },
        { type: 'of_another_kind', text: 'x' },
        { type: 'compaction', content: 'a summary', encrypted_content: 'e' },
        { type: 'text', text: 'found', citations: [{ url: 'u' }] },
      ],
      container: { id: 'container\nx' },
    }));
    const { response } = await ask(stream, modelRequest());
    assert.deepEqual(response.content, [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
      result,
      { type: 'compaction', content: 'a summary', encrypted_content: 'e' },
      { type: 'text', text: 'found', citations: [{ url: 'u' }] },
    ]);
    assert.equal(response.containerId, undefined);
  });
});
