import assert from 'node:assert/strict';
import { openEngine, type Engine } from '../../support/engine.ts';
import type { FakeServer } from '../../support/fake-http.ts';
import { startFakeOpenAI, type OpenAIReply } from '../../support/fake-openai.ts';
import { assertSameRequests } from '../../support/long-thread.ts';

/** Settings that a server of OpenAI's protocol is sent; what is Anthropic's alone is sent to nobody else. */
const SETTINGS = {
  temperature: 0.3,
  max_tokens: 3000,
  api_kwargs: { top_p: 0.9, seed: 7, logit_bias: { '50256': -100 } },
  thinking_tokens: 1024,
  server_tools: [{ type: 'web_search_20250305', name: 'web_search' }],
  beta_headers: ['code-execution-2025-08-25'],
};

describe("A thread whose model speaks OpenAI's protocol", () => {
  let model: FakeServer;
  let engine: Engine;
  before(async () => {
    model = await startFakeOpenAI(answerTo);
    engine = await openEngine(undefined, { OPENAI_API_KEY: 'test', OPENAI_BASE_URL: `${model.url}/v1` });
  });
  after(async () => {
    await engine.close();
    await model.close();
  });

  /** The requests since the last look, as bytes. */
  const sent = () =>
    model.requests.splice(0).map(({ body, headers }) => `${String(headers['anthropic-beta'])} ${JSON.stringify(body)}`);

  for (const name of ['gpt-4.1', 'deepseek-reasoner']) {
    it(`is taken up again with the same bytes: ${name}`, async () => {
      const llm_config = { ...SETTINGS, default_model: `openai/${name}` };
      const memory_config = { short_term: { max_tokens: 500, strategy: 'fifo' as const } };
      const agent = await engine.agent({ name, llm_config, memory_config, tools: ['calculator'] });
      const messages = Array.from({ length: 6 }, (_, turn) => `turn ${turn + 1} ${'ipsum '.repeat(60)}`);

      const [first = '', ...others] = messages;
      const { run } = await engine.start(agent, first, { config: { keep_open: true } });
      await engine.finish(run);
      for (const message of others) {
        await engine.post(agent, run, message);
        await engine.finish(run);
      }
      const warm = sent();

      let thread: string | undefined;
      for (const message of messages) {
        await engine.everyoneDies();
        const started = await engine.start(agent, message, thread === undefined ? {} : { threadId: thread });
        thread = started.thread;
        await engine.finish(started.run);
      }
      assertSameRequests(warm, sent());
      assert.equal(warm.length, 9, 'six answers and three calls');

      const last = JSON.parse(warm.at(-1)?.replace('undefined ', '') ?? '') as Record<string, unknown>;
      const { messages: _said, tools, stream_options: _, ...settings } = last;
      assert.deepEqual(settings, {
        model: name,
        stream: true,
        temperature: 0.3,
        [name === 'gpt-4.1' ? 'max_completion_tokens' : 'max_tokens']: 3000,
        tool_choice: 'auto',
        ...SETTINGS.api_kwargs,
      });
      assert.equal((tools as unknown[]).length, 1, 'none of the provider');
      const log = await engine.log(run);
      assert.ok(
        log.some(({ type }) => type === 'context.transformed'),
        'nothing was left out',
      );
      const called = log.find(({ type }) => type === 'model.called');
      assert.ok(called?.type === 'model.called');
      const { max_tokens, thinking_tokens, tools_count } = called.payload;
      assert.deepEqual(
        { max_tokens, thinking_tokens, tools_count },
        { max_tokens: 3000, thinking_tokens: undefined, tools_count: 1 },
      );
    });
  }
});

/** A call in every other turn; what it says depends on what it is sent alone. */
function answerTo({ messages }: Record<string, unknown>): OpenAIReply {
  const said = messages as { role: string; content: unknown }[];
  const usage = { prompt_tokens: Math.ceil(JSON.stringify(said).length / 3), completion_tokens: 20 };
  const last = said.at(-1);
  const asked = JSON.stringify(said.findLast(({ role }) => role === 'user'));
  const turn = Number(/turn (\d+)/.exec(asked)?.[1]);
  if (last?.role === 'tool' || turn % 2 === 1) return { text: `answer ${turn} ${'lorem '.repeat(40)}`, usage };
  const call = { id: `call_${String(turn).repeat(24)}`, name: 'calculator', arguments: `{"expression":"${turn}+1"}` };
  return { calls: [call], usage };
}
