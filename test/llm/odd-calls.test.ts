import assert from 'node:assert/strict';
import type { StreamModel } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { openaiModel } from '../../llm/openai.ts';
import { startFakeHttp, type FakeServer } from '../support/fake-http.ts';
import { ask, modelRequest, WEATHER } from '../support/model-request.ts';

/** Pieces of calls as they come, one in each event, and the calls that they make: names with arguments. */
interface Case {
  name: string;
  pieces: object[];
  calls: [string, unknown][];
}

const unplaced = (id: string | undefined, name: string | undefined, args: string) => ({
  ...(id !== undefined && { id }),
  function: { ...(name !== undefined && { name }), arguments: args },
});
const piece = (...parts: Parameters<typeof unplaced>) => ({ index: 0, ...unplaced(...parts) });
const PARIS = '{"city":"Paris"}';
const ROME = '{"city":"Rome"}';
const weather = (city: string): [string, unknown] => ['weather', { city }];

const STREAMED: Case[] = [
  {
    name: 'two calls of one index without ids, the first without arguments, are two',
    pieces: [piece('', 'purge', ''), piece('', 'weather', PARIS)],
    calls: [['purge', {}], weather('Paris')],
  },
  {
    name: 'two calls of one index and one id, of two tools, are two',
    pieces: [piece('call_0', 'purge', '{}'), piece('call_0', 'weather', PARIS)],
    calls: [['purge', {}], weather('Paris')],
  },
  {
    name: 'two calls of one id without indexes, of two tools, are two',
    pieces: [unplaced('call_0', 'purge', ''), unplaced('call_0', 'weather', PARIS)],
    calls: [['purge', {}], weather('Paris')],
  },
  {
    name: 'two whole calls of one tool and one index without ids are two',
    pieces: [piece('', 'weather', PARIS), piece('', 'weather', ROME)],
    calls: [weather('Paris'), weather('Rome')],
  },
  {
    name: 'two whole calls of one tool, one index and one id are two',
    pieces: [piece('call_0', 'weather', PARIS), piece('call_0', 'weather', ROME)],
    calls: [weather('Paris'), weather('Rome')],
  },
  {
    name: 'the second of two calls of one index goes on in pieces without a name',
    pieces: [
      piece('', 'weather', '{"city":'),
      piece(undefined, undefined, '"Paris"}'),
      piece('', 'weather', '{"city":'),
      piece(undefined, undefined, '"Rome"}'),
    ],
    calls: [weather('Paris'), weather('Rome')],
  },
  {
    name: 'one call whose pieces all have its name and id is one',
    pieces: [
      piece('a', 'weather', ''),
      piece('a', 'weather', '{"city":'),
      piece('a', 'weather', '"Paris"}'),
      piece('a', 'weather', ''),
    ],
    calls: [weather('Paris')],
  },
  {
    name: 'one call that is said twice as a whole is not made twice',
    pieces: [piece('a', 'weather', PARIS), piece('a', 'weather', PARIS)],
    calls: [['weather', { _raw: PARIS + PARIS }]],
  },
];

describe('Of calls that a server sends', () => {
  let server: FakeServer | undefined;
  afterEach(() => server?.close());

  /** What a model's answer is, whose server sends this. */
  async function answered(open: (url: string) => StreamModel, body: string, type = 'text/event-stream') {
    server = await startFakeHttp(async (_request, response) => {
      response.writeHead(200, { 'content-type': type });
      response.end(body);
    });
    const { response, written } = await ask(open(server.url), modelRequest({ model: 'local', tools: [WEATHER] }));
    const uses = response.content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
    assert.equal(new Set(uses.map(({ id }) => id)).size, uses.length, 'an id is there twice');
    return { calls: uses.map(({ name, input }) => [name, input]), written, stopReason: response.stopReason };
  }

  const openai = (url: string) => openaiModel({ apiKey: 'k', baseUrl: `${url}/v1` });
  const anthropic = (url: string) => anthropicModel({ apiKey: 'k', baseUrl: url });
  const events = (...data: (object | string)[]) =>
    data.map((item) => `data: ${typeof item === 'string' ? item : JSON.stringify(item)}\n\n`).join('');
  const chunk = (delta: object, finish_reason: string | null = null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  });
  const called = (raw: object) => chunk({ tool_calls: [raw] });

  for (const { name, pieces, calls } of STREAMED) {
    it(name, async () => {
      const answer = await answered(openai, events(...pieces.map(called), chunk({}, 'tool_calls'), '[DONE]'));
      assert.deepEqual(answer.calls, calls);
      const places = new Set(answer.written.map(({ tool, place }) => `${place} ${tool}`));
      assert.deepEqual(
        [...places],
        calls.map(([tool], place) => `${place} ${tool}`),
      );
    });
  }

  it('each one of a whole completion is a call, whatever its id and index', async () => {
    for (const of of [piece, unplaced]) {
      const tool_calls = [of('call_0', 'weather', PARIS), of('call_0', 'weather', ROME), of('call_0', 'purge', '')];
      const completion = { choices: [{ index: 0, message: { tool_calls }, finish_reason: 'tool_calls' }] };
      const { calls } = await answered(openai, JSON.stringify(completion), 'application/json');
      assert.deepEqual(calls, [weather('Paris'), weather('Rome'), ['purge', {}]]);
      await server?.close();
    }
  });

  it('one without any arguments is in doubt where the answer names no reason for its end', async () => {
    const cut = [['purge', { _raw: '' }]];
    const chat = await answered(openai, events(called(piece('a', 'purge', '')), '[DONE]'));
    assert.deepEqual(chat, { ...chat, calls: cut, stopReason: 'tool_use' });
    await server?.close();
    const block = {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'tool_use', name: 'purge', input: {} },
    };
    const claude = await answered(anthropic, events(block, { type: 'message_stop' }));
    assert.deepEqual(claude, { ...claude, calls: cut, stopReason: 'tool_use' });
  });

  it('one with whole arguments is made where the answer names no reason for its end', async () => {
    const { calls } = await answered(openai, events(called(piece('a', 'weather', PARIS)), '[DONE]'));
    assert.deepEqual(calls, [weather('Paris')]);
  });
});
