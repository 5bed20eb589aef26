import assert from 'node:assert/strict';
import type { AssistantBlock, Message, UserBlock } from '../../core/content.ts';
import type { ModelRequest } from '../../core/model.ts';
import { anthropicModel } from '../../llm/anthropic.ts';
import { startFakeAnthropic, type AnthropicReply } from '../support/fake-anthropic.ts';
import { ask, modelRequest, userText } from '../support/model-request.ts';

const SEARCH = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'q' } } as const;
const FOUND = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] } as const;
const CALL: AssistantBlock = { type: 'tool_use', id: 'toolu_1', name: 'weather', input: {} };
const RESULT: UserBlock = { type: 'tool_result', tool_use_id: 'toolu_1', content: 'sun' };
const THOUGHT: AssistantBlock = { type: 'thinking', thinking: 'hm', signature: 's' };
const SAID: AssistantBlock = { type: 'text', text: 'Let me see.' };

const answer = (...content: AssistantBlock[]): Message => ({ role: 'assistant', content });
const results = (...content: UserBlock[]): Message => ({ role: 'user', content });

/** What is sent for a request, each time that it is. */
async function sentFor(
  request: Partial<ModelRequest>,
  script: (n: number) => AnthropicReply = () => ({ content: [{ type: 'text', text: 'fine' }] }),
): Promise<Record<string, unknown>[]> {
  const server = await startFakeAnthropic((_, n) => script(n));
  try {
    await ask(anthropicModel({ apiKey: 'k', baseUrl: server.url }), modelRequest(request));
    return server.requests.map(({ body }) => body);
  } finally {
    await server.close();
  }
}

/** Roles, and the types of what each message holds. */
async function shapeOf(messages: Message[]): Promise<string[]> {
  const [sent] = await sentFor({ messages });
  const shaped = sent?.['messages'] as { role: string; content: { type: string }[] }[];
  return shaped.map(({ role, content }) => `${role}: ${content.map(({ type }) => type).join(' ')}`);
}

describe('A call of a tool that the provider executes', () => {
  it('goes back without its result while its answer is the last that was said', async () => {
    assert.deepEqual(await shapeOf([userText('Find it'), answer(THOUGHT, SEARCH)]), [
      'user: text',
      'assistant: thinking server_tool_use',
    ]);
  });

  it('goes back without its result beside a call of ours, with whose result the provider makes it', async () => {
    assert.deepEqual(await shapeOf([userText('Find it'), answer(SEARCH, CALL), results(RESULT)]), [
      'user: text',
      'assistant: server_tool_use tool_use',
      'user: tool_result',
    ]);
    const late = [userText('Find it'), answer(SEARCH, CALL), results(RESULT), answer(FOUND, SAID), userText('Go on')];
    assert.deepEqual(await shapeOf(late), [
      'user: text',
      'assistant: server_tool_use tool_use',
      'user: tool_result',
      'assistant: web_search_tool_result text',
      'user: text',
    ]);
  });

  it('is left out where it has no result and somebody spoke after it, with the reasoning for it', async () => {
    assert.deepEqual(await shapeOf([userText('Find it'), answer(SAID, THOUGHT, SEARCH), userText('Stop')]), [
      'user: text',
      'assistant: text',
      'user: text',
    ]);
    assert.deepEqual(await shapeOf([userText('Find it'), answer(THOUGHT, SEARCH), userText('Stop')]), [
      'user: text text',
    ]);
    const steered = results(RESULT, { type: 'text', text: 'Stop' });
    assert.deepEqual(await shapeOf([userText('Find it'), answer(SEARCH, CALL), steered]), [
      'user: text',
      'assistant: tool_use',
      'user: tool_result text',
    ]);
  });

  it('is left out where the model went on without its result, and a result without its call is, too', async () => {
    const left = [userText('Find it'), answer(SEARCH, CALL), results(RESULT), answer(SAID), userText('More')];
    assert.deepEqual(await shapeOf(left), [
      'user: text',
      'assistant: tool_use',
      'user: tool_result',
      'assistant: text',
      'user: text',
    ]);
    assert.deepEqual(await shapeOf([userText('Find it'), answer(FOUND, SAID), userText('More')]), [
      'user: text',
      'assistant: text',
      'user: text',
    ]);
  });

  it('stays with its result, whatever comes after them', async () => {
    const paused = [userText('Find it'), answer(SEARCH), answer(FOUND, SAID), userText('More')];
    assert.deepEqual(await shapeOf(paused), [
      'user: text',
      'assistant: server_tool_use web_search_tool_result text',
      'user: text',
    ]);
  });
});

describe('The reasoning of Claude up to 4.6', () => {
  const options = { thinkingTokens: 2000 };
  const ENABLED = { type: 'enabled', budget_tokens: 2000 };
  const DISABLED = { type: 'disabled' };
  const asked = userText('Sun?');

  async function thinkingFor(messages: Message[], model = 'claude-opus-4-5'): Promise<unknown> {
    const [sent] = await sentFor({ model, messages, options, maxTokens: 4000 });
    return sent?.['thinking'];
  }

  it('is off in a turn that began with the calls of a model without reasoning, and on from the next turn on', async () => {
    assert.deepEqual(await thinkingFor([asked, answer(CALL), results(RESULT)]), DISABLED);
    assert.deepEqual(await thinkingFor([asked, answer(SAID, SEARCH)]), DISABLED);
    assert.deepEqual(await thinkingFor([asked, answer(CALL), results(RESULT), answer(SAID), asked]), ENABLED);
  });

  it('stays on in a turn that began with it, also where later calls of the turn have none', async () => {
    assert.deepEqual(await thinkingFor([asked]), ENABLED);
    assert.deepEqual(await thinkingFor([asked, answer(THOUGHT, CALL), results(RESULT)]), ENABLED);
    const second: AssistantBlock = { ...CALL, id: 'toolu_2' };
    const next = [answer(second), results({ ...RESULT, tool_use_id: 'toolu_2' })];
    assert.deepEqual(await thinkingFor([asked, answer(THOUGHT, CALL), results(RESULT), ...next]), ENABLED);
    const hidden: AssistantBlock = { type: 'redacted_thinking', data: 'x' };
    assert.deepEqual(await thinkingFor([asked, answer(hidden, CALL), results(RESULT)]), ENABLED);
  });

  it('is left to later models, which decide on it themselves, and to those of other servers', async () => {
    assert.deepEqual(await thinkingFor([asked, answer(CALL), results(RESULT)], 'glm-5'), ENABLED);
    assert.deepEqual(await thinkingFor([asked, answer(CALL), results(RESULT)], 'claude-opus-4-7'), {
      type: 'adaptive',
    });
  });

  it('is off in the request that is sent again without the refused reasoning of its turn', async () => {
    const refusal = { status: 400, type: 'invalid_request_error', message: 'Invalid `signature` in `thinking` block' };
    const sent = await sentFor(
      {
        model: 'claude-opus-4-5',
        messages: [asked, answer(THOUGHT, CALL), results(RESULT)],
        options,
        maxTokens: 4000,
      },
      (n) => (n === 0 ? { error: refusal } : { content: [{ type: 'text', text: 'fine' }] }),
    );
    assert.deepEqual(
      sent.map(({ thinking }) => thinking),
      [ENABLED, DISABLED],
    );
  });

  it("of another server, which has no signature, does not go to Claude, but to a server's own models", async () => {
    const messages = [asked, answer({ ...THOUGHT, signature: '' }, CALL), results(RESULT)];
    const typesOf = async (model: string) => {
      const [sent] = await sentFor({ model, messages });
      const { messages: given } = sent as { messages: { content: { type: string }[] }[] };
      return given[1]?.content.map(({ type }) => type);
    };
    assert.deepEqual(await typesOf('claude-opus-4-5'), ['tool_use']);
    assert.deepEqual(await typesOf('claude-opus-5'), ['tool_use']);
    assert.deepEqual(await typesOf('glm-5'), ['thinking', 'tool_use']);
  });
});
