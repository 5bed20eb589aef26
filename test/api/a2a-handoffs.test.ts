/** Agents over A2A that hand the conversation over. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestApi } from '../support/api.ts';
import { agentsOf, hasResult, startAgentsThatSay, text, use, type Say } from '../support/agents-that-say.ts';
import { waitUntil } from '../support/wait-until.ts';
import { carryHandoffs } from '../../modules/workflows/carry-handoffs.ts';

describe('an agent over A2A that hands the conversation over', () => {
  let api: TestApi;
  let key: string;
  let { ids, agent } = {} as ReturnType<typeof agentsOf>;
  let say: Say;

  before(async () => {
    ({ api } = await startAgentsThatSay((...asked) => say(...asked)));
  });
  after(() => api.close());
  beforeEach(async () => {
    ({ key } = await api.newTenant());
    ({ ids, agent } = agentsOf(api, key));
    await agent('ann', { tools: ['handoff'] });
    await agent('bob', { tools: ['reject_handoff'] });
  });

  async function rpc(name: string, method: string, params: unknown) {
    const body = { jsonrpc: '2.0', id: 1, method, params };
    const headers = { 'a2a-version': '1.0' };
    return (await api.call('POST', `/a2a/${ids[name]}`, { key, headers, body })).json.result;
  }
  async function send() {
    const message = { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text: 'Help me.' }] };
    return (await rpc('ann', 'SendMessage', { message })).task;
  }
  /** The task that goes on with the conversation of this one, once it has ended; and what this one says of it. */
  async function nextOf(name: string, id: string) {
    const told = async () => (await rpc(name, 'GetTask', { id })).metadata.handed_over;
    await waitUntil('the conversation goes on', async () => {
      await carryHandoffs(api.context);
      return (await told())?.task_id !== undefined;
    });
    const { task_id, agent_id, handoff_id } = await told();
    const to = Object.keys(ids).find((each) => ids[each] === agent_id) ?? '';
    await waitUntil('it is settled', async () => {
      const { status } = await rpc(to, 'GetTask', { id: task_id });
      return status.state === 'TASK_STATE_COMPLETED';
    });
    return { to, handoff_id, task: await rpc(to, 'GetTask', { id: task_id }) };
  }
  const handing = () => use('handoff', { to_agent: 'bob', reason: 'Better at it' });

  it('names the task in which the other agent goes on, and the agent', async () => {
    say = (name, _said, request) => (name === 'ann' && !hasResult(request) ? handing() : text(`${name} said it`));
    const task = await send();
    assert.equal(task.status.state, 'TASK_STATE_COMPLETED');
    assert.equal(task.metadata.handed_over.agent_id, ids['bob']);
    const next = await nextOf('ann', task.id);
    assert.deepEqual([next.to, next.task.contextId], ['bob', task.contextId]);
    assert.equal(next.task.artifacts[0].parts[0].text, 'bob said it');
    assert.equal(next.task.metadata.handed_over, undefined);
    const { tasks } = await rpc('ann', 'ListTasks', { contextId: task.contextId });
    assert.equal(tasks[0].metadata.handed_over.task_id, next.task.id);
    assert.equal(tasks[0].metadata.handed_over.handoff_id, next.handoff_id);
  });

  it('is named by the task of the other agent that rejects it, with the task in which it goes on itself', async () => {
    let handed = 0;
    say = (name, _said, request) => {
      if (name === 'bob') return hasResult(request) ? text('no') : use('reject_handoff', { reason: 'Not mine' });
      if (hasResult(request) || handed > 0) return text('ann said it');
      handed += 1;
      return handing();
    };
    const rejected = await nextOf('ann', (await send()).id);
    const back = await nextOf('bob', rejected.task.id);
    assert.deepEqual([back.to, back.task.artifacts[0].parts[0].text], ['ann', 'ann said it']);
  });
});
