import assert from 'node:assert/strict';
import { offered, openEngine, text, type Engine } from '../../support/engine.ts';
import type { AnthropicReply } from '../../support/fake-anthropic.ts';
import type { FakeServer } from '../../support/fake-http.ts';
import { startFakeOpenAI, type OpenAIReply } from '../../support/fake-openai.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';

/** A tool that does the most where it is given the least. */
const PURGE = {
  name: 'purge_cache',
  risk_level: 'WRITE_LOW_RISK' as const,
  input_schema: { type: 'object', properties: { region: { type: 'string' } } },
};
const WHOLE = { region: 'eu' };

type First = { anthropic: AnthropicReply } | { openai: OpenAIReply };

describe('An answer with a call that did not come to its end', () => {
  let engine: Engine;
  let openai: FakeServer;
  let sayOpenAI: (tool: string, n: number) => OpenAIReply;
  before(async () => {
    openai = await startFakeOpenAI((request, n) => {
      const [tool] = (request['tools'] ?? []) as { function: { name: string } }[];
      return sayOpenAI(tool?.function.name ?? '', n);
    });
    engine = await openEngine(DOMAIN_MODE, { OPENAI_API_KEY: 'sk-test', OPENAI_BASE_URL: `${openai.url}/v1` });
  });
  after(() => Promise.all([engine.close(), openai.close()]));

  /** A run whose model gives this answer first, and words after it. */
  async function play(first: First) {
    openai.requests.length = 0;
    engine.toolsAnswer(() => undefined);
    const named = (reply: AnthropicReply, tool: string): AnthropicReply => ({
      ...reply,
      content: reply.content?.map((block) => (block.type === 'tool_use' ? { ...block, name: tool } : block)) ?? [],
    });
    if ('anthropic' in first) {
      engine.say((request, n) => (n === 0 ? named(first.anthropic, offered(request, 'purge_cache')) : text('Well.')));
    } else {
      engine.say([]);
      sayOpenAI = (tool, n) =>
        n > 0
          ? { text: 'Well.' }
          : { ...first.openai, calls: first.openai.calls?.map((call) => ({ ...call, name: tool })) ?? [] };
    }
    const default_model = 'anthropic' in first ? 'claude-sonnet-5' : 'openai/gpt-4.1';
    const agent = await engine.agent({ llm_config: { default_model } }, [PURGE]);
    const { run } = await engine.start(agent, 'go');
    await engine.finish(run);
    const log = await engine.log(run);
    return {
      purged: engine.tools.seen.map(({ body }) => JSON.parse(body) as unknown),
      asked: engine.model.requests.length + openai.requests.length,
      rejected: log.flatMap((event) => (event.type === 'intent.rejected' ? [event.payload] : [])),
      requested: log.filter(({ type }) => type === 'tool.requested').length,
      ended: log.flatMap((event) => (event.type === 'turn.completed' ? [event.payload.stop_reason] : [])),
      conversation: await engine.conversation(run),
    };
  }

  const use = (input: object = {}) => [{ type: 'tool_use', id: 'toolu_01ABCDEFGHIJKLMNOPQRSTUV', name: '', input }];
  const call = (args: string) => [{ id: 'call_01ABCDEFGHIJKLMNOPQRSTUV', name: '', arguments: args }];

  for (const [what, first] of Object.entries<First>({
    max_tokens: { anthropic: { content: use(), rawInput: '', stop_reason: 'max_tokens' } },
    model_context_window_exceeded: {
      anthropic: { content: use(), rawInput: '', stop_reason: 'model_context_window_exceeded' },
    },
    'max_tokens in a message of one piece': { anthropic: { content: use(), json: true, stop_reason: 'max_tokens' } },
    length: { openai: { calls: call(''), finish_reason: 'length' } },
    'no finish reason': { openai: { calls: call(''), finish_reason: '' } },
  })) {
    it(`makes no call whose arguments never came, and tells the model: ${what}`, async () => {
      const { purged, rejected, asked, ended } = await play(first);
      assert.deepEqual(purged, []);
      assert.deepEqual(
        rejected.map(({ code, attempt }) => [code, attempt]),
        [['invalid_arguments', 1]],
      );
      assert.match(rejected[0]?.message ?? '', /cut off before this call had any/);
      assert.deepEqual([asked, ended], [2, ['end_turn']]);
    });
  }

  for (const [what, first] of Object.entries<First>({
    max_tokens: { anthropic: { content: use(WHOLE), stop_reason: 'max_tokens' } },
    length: { openai: { calls: call(JSON.stringify(WHOLE)), finish_reason: 'length' } },
    'no finish reason': { openai: { calls: call(JSON.stringify(WHOLE)), finish_reason: '' } },
  })) {
    it(`makes a call whose arguments are whole: ${what}`, async () => {
      const { purged, rejected } = await play(first);
      assert.deepEqual([purged, rejected], [[WHOLE], []]);
    });
  }

  for (const [what, first] of Object.entries<First>({
    'no input of a message that ends for a tool': { anthropic: { content: use(), rawInput: '' } },
    'an empty text of an answer that ends for a tool': { openai: { calls: call('') } },
    'an empty object of a cut answer': { openai: { calls: call('{}'), finish_reason: 'length' } },
  })) {
    it(`makes a call without arguments where these are whole: ${what}`, async () => {
      const { purged, rejected } = await play(first);
      assert.deepEqual([purged, rejected], [[{}], []]);
    });
  }

  for (const [what, first] of Object.entries<First>({
    refusal: { anthropic: { content: use(WHOLE), stop_reason: 'refusal' } },
    content_filter: { openai: { text: 'I beg', calls: call(JSON.stringify(WHOLE)), finish_reason: 'content_filter' } },
    'a refusal beside a whole call': { openai: { refusal: 'I cannot do that', calls: call(JSON.stringify(WHOLE)) } },
  })) {
    it(`ends the turn with none of its calls made where the model refuses: ${what}`, async () => {
      const { purged, requested, asked, ended, conversation } = await play(first);
      assert.deepEqual([purged, requested, asked], [[], 0, 1]);
      assert.deepEqual(ended, ['refusal']);
      assert.doesNotMatch(JSON.stringify(conversation), /tool_use/);
    });
  }
});
