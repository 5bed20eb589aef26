import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import { startTestService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

type Edge = [from: string, to: string | string[], condition?: string];

const graphOf = (nodes: object[], edges: Edge[], entry = 'draft') => ({
  entry_point: entry,
  nodes,
  edges: edges.map(([from, to, condition = null]) => ({ from, to, condition })),
});

const lastText = ({ messages }: AnthropicRequest) => {
  const content = messages.at(-1)?.content;
  return typeof content === 'string' ? content : content?.map((block) => block['text'] ?? '').join('|');
};

describe('an agent with a graph', () => {
  let api: TestApi;
  const asked: AnthropicRequest[] = [];

  const newAgent = async (workflow_graph: object, more: object = {}) => {
    const body = { name: `a${Math.random()}`, system_prompt: 'You work.', workflow_graph, ...more };
    const { json, status } = await api.call('POST', '/v1/agents', { body });
    assert.equal(status, 201, JSON.stringify(json));
    return json.id as string;
  };
  const startRun = async (agent: string, message = 'Begin') => {
    const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } });
    return json.id as string;
  };
  const read = async (run: string) => (await api.call('GET', `/v1/runs/${run}`)).json;
  const settled = async (run: string) => { setTimeout(async () => console.log(JSON.stringify([await read(run), await events(run)], null, 1).slice(0, 6000)), 6000);
    const rests = ({ status, waiting_for }: { status: string; waiting_for?: { type: string } }) =>
      ['completed', 'failed'].includes(status) || (waiting_for && waiting_for.type !== 'tool_results');
    await waitUntil('the run waits or has ended', async () => rests(await read(run)));
    return read(run);
  };
  const events = async (run: string) => {
    const { json } = await api.call('GET', `/v1/runs/${run}/events?limit=200`);
    return json.events as { type: string; payload: Record<string, unknown> }[];
  };
  const visited = async (run: string) =>
    (await events(run)).filter(({ type }) => type === 'node.entered').map(({ payload }) => payload['node']);

  before(async () => {
    const model = await startFakeAnthropic((request) => {
      asked.push(request);
      const n = asked.length;
      return { content: [{ type: 'text', text: `said ${n}` }] };
    });
    api = await startTestService({ model });
  });
  after(() => api.close());
  beforeEach(() => void (asked.length = 0));

  it('goes from node to node, as conditions say, asks a person and comes to its end', async () => {
    const graph = graphOf(
      [
        { name: 'draft', type: 'llm', config: { prompt: 'Write about {{input}}.', tools: ['current_time'] } },
        { name: 'sum', type: 'tool', config: { tool: 'calculator', input: { expression: '{{iteration}} + 1' } } },
        { name: 'check', type: 'router', config: {} },
        { name: 'review', type: 'human', config: { prompt: 'Is {{output.result}} right?' } },
        { name: 'final', type: 'llm', config: { tools: [] }, writes: { last: '{{output}}' } },
      ],
      [
        ['draft', 'sum'],
        ['sum', 'check'],
        ['check', 'draft', 'output.result < 3.0'],
        ['check', 'review'],
        ['review', 'final', 'output == "yes"'],
        ['review', 'draft'],
      ],
    );
    const run = await startRun(await newAgent(graph, { tools: ['json_query'] }), 'the sea');
    const waiting = await settled(run);
    assert.deepEqual([waiting.waiting_for?.type, waiting.waiting_for?.question], ['user', 'Is 3 right?'], JSON.stringify(waiting));
    assert.deepEqual(await visited(run), ['draft', 'sum', 'check', 'draft', 'sum', 'check', 'review']);
    const resumed = await api.call('POST', `/v1/runs/${run}/resume`, { body: { answer: 'yes' } });
    assert.equal(resumed.status, 200, resumed.text);
    const done = await settled(run);
    assert.equal(done.status, 'completed', JSON.stringify(done.error));
    assert.equal(done.output.message, 'said 3');
    assert.match(JSON.stringify(asked[0]?.['system']), /You work\.\\n\\nWrite about the sea\./);
    assert.deepEqual(asked[0]?.tools?.map(({ name }) => name), ['current_time']);
    assert.equal(asked[2]?.tools?.length ?? 0, 0);
    assert.equal(lastText(asked[2] as AnthropicRequest), 'yes');
  });
});
