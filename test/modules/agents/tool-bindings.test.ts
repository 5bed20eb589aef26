import assert from 'node:assert/strict';
import type { TestApi } from '../../support/api.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../../support/fake-anthropic.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { startTestService } from '../../support/service.ts';
import { newName } from '../../support/new-name.ts';

describe('the bindings of an agent to its tools', () => {
  let api: TestApi;
  const offered: string[][] = [];

  before(async () => {
    const model = await startFakeAnthropic((request: AnthropicRequest) => {
      offered.push((request.tools ?? []).map(({ name }) => name));
      const last = JSON.stringify(request.messages.at(-1));
      if (last.includes('tool_result') || !/call (\w+)/.test(last))
        return { content: [{ type: 'text', text: 'done' }] };
      const [, name = ''] = /call (\w+)/.exec(last) ?? [];
      const input = name === 'calculator' ? { expression: '1+1' } : {};
      const use = (n: number) => ({ type: 'tool_use', id: `toolu_${n}`, name, input });
      return { content: [use(1), use(2)], stop_reason: 'tool_use' };
    });
    api = await startTestService({ model });
  });
  after(() => api.close());

  const agent = async (body: Record<string, unknown>, expected = 201) => {
    const { status, json, text } = await api.call('POST', '/v1/agents', { body: { name: newName('bound'), ...body } });
    assert.equal(status, expected, text);
    return json;
  };
  const run = async (id: string, message: string) => {
    offered.length = 0;
    const { json } = await api.call('POST', `/v1/agents/${id}/runs`, { body: { input: { message } } });
    await waitUntil(
      'it ends',
      async () => (await api.call('GET', `/v1/runs/${json.run_id}`)).json.completed_at !== null,
    );
    const { json: events } = await api.call('GET', `/v1/runs/${json.run_id}/events`);
    return (events.events as { type: string; payload: { error?: { code: string } } }[]).flatMap(({ type, payload }) =>
      type === 'tool.succeeded' ? ['succeeded'] : type === 'tool.denied' ? [payload.error?.code ?? type] : [],
    );
  };

  it('are taken as the document registers them, and bring a tool once one is there', async () => {
    const transport = { type: 'http', endpoint: 'https://tools.example.com/v1' };
    const tool_bindings = [{ tool_uri: 'mcp://tools.example.com/web-search', permissions: ['execute'] }];
    const { id } = await agent({ tool_bindings });
    assert.deepEqual((await api.call('GET', `/v1/agents/${id}`)).json.tool_bindings, tool_bindings);
    await run(id, 'hello');
    assert.deepEqual(offered, [[]]);
    const tool = { name: 'web_search', description: 'Searches.', transport };
    assert.equal((await api.call('POST', '/v1/tools', { body: tool })).status, 201);
    await run(id, 'hello');
    assert.deepEqual(offered, [['web_search']]);
    await agent({ tool_bindings: [{ tool_id: 'nothing' }] }, 422);
  });

  it('find a tool that is registered under another name than its server has for it', async () => {
    const transport = { type: 'mcp_http', endpoint: 'https://mcp.example.com/mcp', tool: 'create-ticket' };
    const tool = { name: 'desk_create_ticket', description: 'Opens a ticket.', transport };
    assert.equal((await api.call('POST', '/v1/tools', { body: tool })).status, 201);
    const { id } = await agent({ tool_bindings: [{ tool_uri: 'mcp://mcp.example.com/create-ticket' }] });
    await run(id, 'hello');
    assert.deepEqual(offered, [['desk_create_ticket']]);
    const elsewhere = await agent({ tool_bindings: [{ tool_uri: 'mcp://other.example.com/create-ticket' }] });
    await run(elsewhere.id, 'hello');
    assert.deepEqual(offered, [[]]);
  });

  it('hold runs at the same time to one rate together', async () => {
    const tool_bindings = [{ tool_uri: 'builtin://calculator', rate_limit: 5 }];
    const { id } = await agent({ tools: ['calculator'], tool_bindings });
    const ends = await Promise.all(Array.from({ length: 8 }, () => run(id, 'call calculator')));
    const counted = ends.flat();
    assert.deepEqual([counted.filter((end) => end === 'succeeded').length, counted.length], [5, 16]);
  });

  it('take tools away, and say what of them may be called and how often', async () => {
    const tools = ['calculator', 'current_time'];
    const bound = (binding: Record<string, unknown>) =>
      agent({ tools, tool_bindings: [{ tool_uri: 'builtin://calculator', ...binding }] });
    const off = await bound({ is_enabled: false });
    await run(off.id, 'hello');
    assert.deepEqual(offered, [['current_time']]);
    const writing = await bound({ permissions: ['write'] });
    assert.deepEqual(await run(writing.id, 'call calculator'), ['permission_denied', 'permission_denied']);
    const reading = await bound({ permissions: ['read'], rate_limit: 3 });
    assert.deepEqual(await run(reading.id, 'call calculator'), ['succeeded', 'succeeded']);
    assert.deepEqual((await run(reading.id, 'call calculator')).toSorted(), ['rate_limited', 'succeeded']);
  });
});
