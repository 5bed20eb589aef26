/** One long conversation with every kind of step, made by a model whose answers depend on what it is sent alone: the same requests make the same conversation. */
import assert from 'node:assert/strict';
import { digestOf } from '../../core/ids.ts';
import { text, use } from './engine.ts';
import { conversationRequests, type AnthropicReply, type AnthropicRequest } from './fake-anthropic.ts';
import type { FakeServer } from './fake-http.ts';

export const SEARCH = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 };
export const CODE = { type: 'code_execution_20250825', name: 'code_execution' };
/** Settings of an agent's model that use what a provider has. */
export const LLM = {
  default_model: 'anthropic/claude-haiku-4-5',
  max_tokens: 3000,
  thinking_tokens: 1024,
  server_tools: [SEARCH, CODE],
  beta_headers: ['code-execution-2025-08-25', 'context-management-2025-06-27'],
  api_kwargs: { top_p: 0.9, stop_sequences: ['STOP'] },
};
/** An answer that the provider made with tools of its own. */
export const searched = (n: number): NonNullable<AnthropicReply['content']> => [
  { type: 'thinking', thinking: `about ${n}`, signature: `signed ${n}` },
  { type: 'server_tool_use', id: `srvtoolu_${n}`, name: 'web_search', input: { query: `n ${n}` } },
  {
    type: 'web_search_tool_result',
    tool_use_id: `srvtoolu_${n}`,
    content: [{ type: 'web_search_result', url: 'https://a.example', title: 'A', encrypted_content: `secret ${n}` }],
  },
  {
    type: 'text',
    text: `found ${n}`,
    citations: [{ type: 'web_search_result_location', url: 'https://a.example', encrypted_index: `i${n}` }],
  },
];

/** What the user says in a turn, from 1. */
export const messageOf = (turn: number) => `turn ${turn} ${'ipsum '.repeat(20)}`;

/** What the model answers depends on what it is sent alone, so that the same requests make the same conversation. */
export const scriptLongThread = (request: AnthropicRequest): AnthropicReply => {
  if (request.tools?.[0]?.name === 'submit_summary') {
    return use({ name: 'submit_summary', input: { summary: digestOf(request.messages).slice(0, 8) }, id: 'toolu_s' });
  }
  const { messages } = request;
  const last = messages.at(-1);
  const said = JSON.stringify(last?.content);
  const n = Number(/turn (\d+)/.exec(JSON.stringify(messages.findLast(({ role }) => role === 'user')))?.[1] ?? 0);
  const prompt = JSON.stringify(request).length;
  const usage = { input_tokens: Math.ceil(prompt / 3), output_tokens: 20 };
  if (last?.role === 'assistant') return { content: [{ type: 'text', text: `went on ${n}` }], usage };
  if (said.includes('does not fit')) return { ...text('{"n": 1}'), usage };
  if (said.includes('tool_result')) return { ...text(`the sum of ${n}`), usage };
  if (n % 5 === 1) return { content: searched(n), usage, container: { id: `container_${n % 2}` } };
  if (n % 5 === 2) {
    const input = { expression: `${n} + 1` };
    return { ...use({ name: 'calculator', input, id: `toolu_${digestOf(n).slice(0, 24)}` }), usage };
  }
  if (n % 5 === 3) return { content: searched(n).slice(0, 2), stop_reason: 'pause_turn', usage };
  return { ...text(`answer to ${n} ${'lorem '.repeat(40)}`), usage };
};

/** Requests of the model so far, as bytes, without Drover's own. */
export const conversationBytes = (model: FakeServer) =>
  conversationRequests(model).map(
    ({ body, headers }) => `${String(headers['anthropic-beta'])} ${JSON.stringify(body)}`,
  );

/** Fails with the place where two conversations were sent differently. */
export function assertSameRequests(one: readonly string[], other: readonly string[]): void {
  const at = one.findIndex((request, index) => other[index] !== request);
  assert.equal(at, -1, difference(one[at], other[at]));
  assert.equal(other.length, one.length);
}

/** Where two requests differ, and how. */
function difference(one = '', other = ''): string {
  const at = one.split('').findIndex((unit, index) => other[index] !== unit);
  return `${one.slice(Math.max(0, at - 100), at + 100)}\n${other.slice(Math.max(0, at - 100), at + 100)}`;
}
