/** Agents with graphs, with others that work for them, and with others that go on for them, over every wire form by its own client. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { agUiClient } from '../support/wire/ag-ui.ts';
import { aiClient } from '../support/wire/ai-chat.ts';
import { inTurn } from '../support/wire/recordings.ts';
import {
  talkOverAcp,
  talkOverAgUi,
  talkOverAiSdk,
  talkOverSession,
  type Talk,
  type TalkOf,
} from '../support/wire/talk.ts';

const FORMS: Record<string, (of: TalkOf) => Promise<Talk>> = {
  'AG-UI': talkOverAgUi,
  'the AI SDK': talkOverAiSdk,
  ACP: talkOverAcp,
  'the WebSocket of a session': talkOverSession,
};

const llm = (name: string) => ({ name, type: 'llm', config: { tools: [] } });
const sum = { name: 'sum', type: 'tool', config: { tool: 'calculator', input: { expression: '6*7' } } };
const human = (more = {}) => ({ name: 'review', type: 'human', config: { prompt: 'Good enough?', ...more } });

describe('over wire forms', function () {
  let api: ScriptedService;
  const talks: Talk[] = [];

  before(async () => {
    api = await startScriptedService();
  });
  afterEach(() => {
    for (const talk of talks.splice(0)) talk.leave();
  });
  after(() => api.close());

  const newGraph = (...nodes: Parameters<typeof inTurn>) => api.newAgent([], { workflow_graph: inTurn(...nodes) });
  const named = async (more = {}): Promise<{ name: string; id: string }> => {
    const name = `n${randomUUID()}`;
    const { json } = await api.call('POST', '/v1/agents', { body: { name, ...more } });
    return { name, id: json.id };
  };

  /** A conversation of which another agent has taken its first turn. */
  async function handOver(begin: (agent: string) => Promise<Talk>) {
    const target = await named();
    const source = await api.newAgent(['handoff']);
    const talk = await begin(source);
    await talk.say(`call handoff {"to_agent":"${target.name}","reason":"say taken"} | say over to them`);
    const { texts, calls } = talk.shown();
    assert.deepEqual([texts[0], calls], ['over to them', ['handoff: done']]);
    const thread = await talk.thread();
    const runs = async (): Promise<{ agent_id: string; status: string }[]> =>
      (await api.call('GET', `/v1/runs?thread_id=${thread}`)).json.runs;
    await waitUntil('the target has read what it was handed', async () => {
      await carryHandoffs(api.context);
      const [newest] = await runs();
      return newest?.agent_id === target.id && newest.status === 'awaiting_human';
    });
    return { talk, source, target: target.id, runs };
  }

  it('over ACP a prompt shows first what has come to the session meanwhile', async () => {
    const { talk } = await handOver(async (agent) => {
      const opened = await talkOverAcp({ api, agent });
      talks.push(opened);
      return opened;
    });
    await talk.say('say hello from the target');
    const [first, second = '', third, ...rest] = talk.shown().texts;
    assert.match(second, /Reason: say taken/);
    assert.deepEqual([first, third, rest], ['over to them', 'hello from the target', []]);
  });

  for (const [form, open] of Object.entries(FORMS)) {
    describe(form, () => {
      const begin = async (agent: string) => {
        const talk = await open({ api, agent });
        talks.push(talk);
        return talk;
      };

      it('shows what each node of a graph says and calls, and ends with it', async () => {
        const talk = await begin(await newGraph(llm('draft'), sum, llm('final')));
        await talk.say('say drafted');
        assert.deepEqual(talk.shown(), { texts: ['drafted', '{"result":42}'], calls: ['calculator: done'], asked: [] });
        await talk.say('say again');
        assert.deepEqual(talk.shown().texts.slice(2), ['again', '{"result":42}']);
      });

      it('shows the answer of a graph that ends with a call', async () => {
        const talk = await begin(await newGraph(llm('draft'), sum));
        await talk.say('say drafted');
        assert.deepEqual(talk.shown(), { texts: ['drafted', '{"result":42}'], calls: ['calculator: done'], asked: [] });
      });

      it('asks the question of a node for a person, and goes on with the answer', async () => {
        const talk = await begin(await newGraph(llm('draft'), human(), llm('final')));
        await talk.say('say drafted');
        const { texts, asked } = talk.shown();
        assert.deepEqual([texts, asked], [['drafted'], ['Good enough?']]);
        await talk.answer('say polished');
        const after = talk.shown();
        assert.deepEqual([after.texts, after.asked], [['drafted', 'polished'], []]);
      });

      it('asks for the approval of a node for a person, and goes on with it', async () => {
        const talk = await begin(await newGraph(llm('draft'), human({ signal: 'approval' }), llm('final')));
        await talk.say('say drafted');
        assert.deepEqual(talk.shown().asked, ['Good enough?']);
        await talk.answer('');
        const after = talk.shown();
        assert.deepEqual([after.texts, after.asked], [['drafted', '{"approved":true}'], []]);
      });

      it('goes on with the agent that was handed the conversation', async () => {
        const { talk, source, target, runs } = await handOver(begin);
        await talk.look();
        const isShown = () => talk.shown().texts.some((text) => text.includes('Reason: say taken'));
        await waitUntil('what the target has said is shown', isShown);
        await talk.say('say hello from the target');
        assert.equal(talk.shown().texts.at(-1), 'hello from the target');
        const agents = (await runs()).map(({ agent_id }) => agent_id);
        assert.deepEqual(agents, [target, source]);
      });

      it('speaks with the agent that is being handed the conversation', async () => {
        const target = await named();
        const talk = await begin(await api.newAgent(['handoff']));
        await talk.say(`call handoff {"to_agent":"${target.name}","reason":"say taken"} | say over to them`);
        await talk.say('say hello from the target');
        await waitUntil('its answer is shown', () => talk.shown().texts.at(-1) === 'hello from the target');
        const { runs } = (await api.call('GET', `/v1/runs?thread_id=${await talk.thread()}`)).json;
        assert.deepEqual([runs.length, runs[0].agent_id], [2, target.id]);
      });

      it('waits for whoever an agent has delegated to, and ends with its own answer', async () => {
        const child = await named();
        const talk = await begin(await api.newAgent(['delegate']));
        await talk.say(`call delegate {"agent":"${child.name}","description":"say found"} | say made of it`);
        assert.deepEqual(talk.shown(), { texts: ['made of it'], calls: ['delegate: done'], asked: [] });
      });
    });
  }

  it('a workflow says its answer, and its stream does', async () => {
    const agent = await api.newAgent([]);
    const definition = { subtasks: [{ id: 'a', description: 'say the whole of it', dependencies: [] }] };
    const body = { name: 'w', agent_id: agent, input: { user_query: 'What is it?' }, definition };
    const { id } = (await api.call('POST', '/v1/workflows', { body })).json;
    const read = async () => (await api.call('GET', `/v1/runs/${id}`)).json;
    await waitUntil('it has ended', async () => (await read()).status === 'completed');
    const { thread_id: thread } = await read();
    const place = { url: api.url, key: api.key, agent, thread, run: id };
    const { json: past } = await api.call('GET', `/v1/threads/${thread}/ui-messages`);
    assert.deepEqual(past.messages[1].parts, [
      { type: 'step-start' },
      { type: 'text', text: 'the whole of it', state: 'done' },
    ]);
    for (const open of [aiClient, agUiClient]) {
      const client = open();
      await client.follow(place);
      assert.match(JSON.stringify(client.state()), /"the whole of it"/, client.form);
    }
    const { text } = await api.call('GET', `/v1/runs/${id}/stream`, { headers: { 'last-event-id': '0' } });
    assert.match(text, /event: message\ndata: \{"content":"the whole of it","done":true/);
  });
});
