import assert from 'node:assert/strict';
import type { Message, ToolResultBlock } from '../../core/content.ts';
import { NO_TOKENS, type ModelResponse } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { anthropicParams } from '../../llm/anthropic-request.ts';
import { mergeMessages } from '../../llm/messages.ts';
import { openaiParams } from '../../llm/openai-request.ts';
import { soundAnswer } from '../../llm/sound-answer.ts';
import { startFakeHttp } from '../support/fake-http.ts';
import { ask, modelRequest, WEATHER } from '../support/model-request.ts';

describe('An answer of a server that sends other things than it should', () => {
  it('has texts where texts belong, a model with a name, and counts that can be added', () => {
    const odd = {
      provider: 'openai',
      model: 'x'.repeat(20_000),
      content: [
        { type: 'text', text: { a: 1 } },
        { type: 'thinking', thinking: 7, signature: null },
        { type: 'tool_use', id: 7, name: 8, input: {} },
      ],
      stopReason: 'tool_use',
      usage: { ...NO_TOKENS, input: 3, output: 1e16 },
    } as unknown as ModelResponse;
    const { model, content, usage } = soundAnswer({ model: 'asked' }, odd);
    assert.equal(model.length, 200);
    assert.deepEqual(content.slice(0, 2), [
      { type: 'text', text: '{"a":1}' },
      { type: 'thinking', thinking: '7', signature: 'null' },
    ]);
    const [, , call] = content;
    assert.ok(call?.type === 'tool_use' && call.id.startsWith('toolu_') && call.name === '8');
    assert.deepEqual([usage.input, usage.output], [3, 1e12]);
    for (const name of [7, undefined, ''])
      assert.equal(soundAnswer({ model: 'asked' }, { ...odd, model: name as string }).model, 'asked');
    assert.equal(soundAnswer({ model: 'asked' }, { ...odd, model: 'a\0b' }).model, 'a\ufffdb');
  });

  it('is no outage where nobody can read it', async () => {
    const broken = { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '', citations: {} } };
    const events = [
      { type: 'message_start', message: { model: 'm', usage: { input_tokens: 1 } } },
      broken,
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
      { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
      { type: 'message_stop' },
    ];
    const server = await startFakeHttp(async (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join(''));
    });
    const { response } = await ask(anthropicModel({ apiKey: 'k', baseUrl: server.url }), modelRequest({}));
    assert.deepEqual(response.content, [{ type: 'text', text: 'Hello' }]);
    await server.close();
  });
});

describe('A conversation as it is sent', () => {
  it('has a message of blanks as one: what was said last is what the model answers', () => {
    const said = (role: 'user' | 'assistant', text: string) => ({ role, content: [{ type: 'text' as const, text }] });
    const merged = mergeMessages([said('user', 'hello'), said('assistant', 'hi'), said('user', ' \n')]);
    assert.deepEqual(
      merged.map(({ role, content }) => [role, content]),
      [
        ['user', [{ type: 'text', text: 'hello' }]],
        ['assistant', [{ type: 'text', text: 'hi' }]],
        ['user', [{ type: 'text', text: '(a message without text)' }]],
      ],
    );
    assert.deepEqual(mergeMessages([said('user', 'hello'), said('assistant', ' ')]).length, 1);
  });

  describe('has names of calls that every provider takes', () => {
    const names = ['calculator<|channel|>commentary', 'no such tool!', '', 'ünï', '🌍', 'x'.repeat(300), 'weather'];
    const sent = [
      'calculator__channel__commentary',
      'no_such_tool_',
      'unknown_tool',
      '_n_',
      '_',
      'x'.repeat(64),
      'weather',
    ];
    const messages: Message[] = [
      { role: 'user', content: [{ type: 'text', text: 'go' }] },
      {
        role: 'assistant',
        content: names.map((name, place) => ({ type: 'tool_use', id: `call_${place}`, name, input: {} })),
      },
      {
        role: 'user',
        content: names.map((_, place) => ({
          type: 'tool_result',
          tool_use_id: `call_${place}`,
          content: 'Unknown tool',
        })),
      },
    ];
    const asIs = JSON.stringify(messages);

    afterEach(() => assert.equal(JSON.stringify(messages), asIs));

    it('where the model has called what is no name of a tool', () => {
      const [, asked] = anthropicParams(modelRequest({ messages, tools: [WEATHER] })).messages;
      assert.ok(Array.isArray(asked?.content));
      assert.deepEqual(
        asked.content.map((block) => block.type === 'tool_use' && block.name),
        sent,
      );
      const params = openaiParams(modelRequest({ messages, tools: [WEATHER] }));
      const called = params.messages.flatMap((each) => (each.role === 'assistant' ? (each.tool_calls ?? []) : []));
      assert.deepEqual(
        called.map((call) => call.type === 'function' && call.function.name),
        sent,
      );
    });

    it('also where these are all tools that a request has to declare', () => {
      const claude = anthropicParams(modelRequest({ messages })).tools ?? [];
      assert.deepEqual(
        claude.map((tool) => 'name' in tool && tool.name),
        sent,
      );
      const chat = openaiParams(modelRequest({ messages })).tools ?? [];
      assert.deepEqual(
        chat.map((tool) => tool.type === 'function' && tool.function.name),
        sent,
      );
    });
  });

  it('has words in each result of a failed call, as empty ones are refused', () => {
    const failed = (content: ToolResultBlock['content']): ToolResultBlock => {
      return { type: 'tool_result', tool_use_id: 'call_1', content, is_error: true };
    };
    const blank = { type: 'text' as const, text: ' ' };
    const image = { type: 'image' as const, source: { type: 'url' as const, url: 'https://example.com/a.png' } };
    const why = 'The tool failed without saying why.';
    for (const [content, shown] of [
      ['', why],
      ['\n', why],
      [[], why],
      [[blank, blank], why],
      ['no', 'no'],
      [[blank, image], undefined],
    ] as const) {
      const messages: Message[] = [{ role: 'user', content: [failed(content as ToolResultBlock['content'])] }];
      const [sent] = anthropicParams(modelRequest({ messages, tools: [WEATHER] })).messages;
      const [block] = Array.isArray(sent?.content) ? sent.content : [];
      assert.ok(block?.type === 'tool_result' && block.is_error === true);
      if (shown !== undefined) assert.equal(block.content, shown);
      else assert.deepEqual(block.content, [image]);
      const said = openaiParams(modelRequest({ messages, tools: [WEATHER] })).messages.find(
        ({ role }) => role === 'tool',
      );
      if (shown !== undefined) assert.equal(said?.content, `Error: ${shown}`);
    }
    const done = { ...failed(''), is_error: false };
    assert.deepEqual(mergeMessages([{ role: 'user', content: [done] }])[0]?.content, [done]);
  });
});
