/** Agents of a service whose model says for each of them, by its name, what a test wants it to. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestApi } from './api.ts';
import { startFakeAnthropic, type AnthropicReply, type AnthropicRequest } from './fake-anthropic.ts';
import type { FakeServer } from './fake-http.ts';
import { startTestService } from './service.ts';

/** What an agent says, by its name and what it reads; undefined is a model that thinks for ever. */
export type Say = (
  agent: string,
  said: string,
  request: AnthropicRequest,
) => AnthropicReply | undefined | Promise<AnthropicReply>;

/** A service with such a model; the agents are those of `agentsOf`. */
export async function startAgentsThatSay(say: Say): Promise<{ api: TestApi; model: FakeServer }> {
  const model = await startFakeAnthropic(async (request: AnthropicRequest) => {
    const name = /I am (\w+)\./.exec(JSON.stringify(request.system))?.[1] ?? '?';
    return (await say(name, JSON.stringify(request.messages), request)) ?? { content: [], hang: true };
  });
  return { model, api: await startTestService({ model }) };
}

export const text = (said: string): AnthropicReply => ({ content: [{ type: 'text', text: said }] });

export const use = (name: string, input: Record<string, unknown>): AnthropicReply => ({
  content: [{ type: 'tool_use', id: `toolu_${randomUUID()}`, name, input }],
  stop_reason: 'tool_use',
});

export const hasResult = (request: AnthropicRequest) => JSON.stringify(request.messages.at(-1)).includes('tool_result');

/** Requests with the key of a tenant, and the ids of its agents by their names. */
export function agentsOf(api: TestApi, key: string) {
  const ids: Record<string, string> = {};
  const make = async (path: string, body: unknown, expected = 201) => {
    const { status, json, text: told } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, told);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const agent = async (name: string, more = {}) => {
    ({ id: ids[name] = '' } = await make('/v1/agents', { name, system_prompt: `I am ${name}.`, ...more }));
    return ids[name];
  };
  return { ids, make, read, agent };
}
