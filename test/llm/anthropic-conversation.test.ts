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
