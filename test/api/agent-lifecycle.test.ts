import assert from 'node:assert/strict';
import type { TestApi } from '../support/api.ts';
import { startFakeAnthropic, type AnthropicRequest } from '../support/fake-anthropic.ts';
import { waitUntil } from '../support/wait-until.ts';
import { readPolicyEpoch } from '../../db/governance.ts';
import { lapseAgents } from '../../modules/workflows/lapse-agents.ts';
import { startTestService } from '../support/service.ts';
import { silenceAgent } from '../support/queries/agents.ts';

describe('the lifecycle of agents', () => {
  let api: TestApi;
  let key: string;
  let tenant: string;
  /** What hangs until it is let go. */
  let isHanging: (brief: string) => boolean;

  const make = async (path: string, body: unknown, expected = 201) => {
    const { status, json, text } = await api.call('POST', path, { key, body });
    assert.equal(status, expected, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path, { key })).json;
  const beat = (id: string) => make(`/v1/agents/${id}/heartbeat`, {}, 200);
  const statusOf = async (id: string) => (await read(`/v1/agents/${id}`)).status;
  const named = async (query: string) =>
    (await read(`/v1/agents/discover?${query}`)).agents.map(({ name }: { name: string }) => name);
  const silence = (id: string, seconds: number) => silenceAgent(api.context.db, id, seconds);

  before(async () => {
    const model = await startFakeAnthropic((request: AnthropicRequest) => {
      const brief = JSON.stringify([request.system, request.messages]);
      return isHanging(brief) ? { content: [], hang: true } : { content: [{ type: 'text', text: 'done' }] };
    });
    api = await startTestService({ model });
  });
  after(() => api.close());
  beforeEach(async () => {
    isHanging = () => false;
    ({ key, id: tenant } = await api.newTenant());
  });

  it('goes from active to idle by a heartbeat, which changes nothing else', async () => {
    const { id, status } = await make('/v1/agents', { name: 'a' });
    assert.equal(status, 'active');
    const before = await read(`/v1/agents/${id}`);
    const epoch = () => api.context.db.withTenant(tenant, (tx) => readPolicyEpoch(tx));
    const epochBefore = await epoch();
    const { status: beaten, heartbeats, timeout_ms } = await beat(id);
    assert.deepEqual([beaten, heartbeats, timeout_ms], ['idle', 0, 30_000]);
    assert.deepEqual(await read(`/v1/agents/${id}`), { ...before, status: 'idle' });
    assert.equal(await epoch(), epochBefore);
    assert.deepEqual(await named(''), ['a']);
    assert.deepEqual(await named('status=active'), []);
    assert.equal((await read('/v1/agents?status=idle')).agents.length, 1);
  });

  it('takes an agent offline that has beaten and is silent, no other, and back after three heartbeats in a row', async () => {
    const { id } = await make('/v1/agents', { name: 'beats' });
    const { id: never } = await make('/v1/agents', { name: 'never' });
    await beat(id);
    await silence(id, 31);
    await lapseAgents(api.context);
    assert.deepEqual([await statusOf(id), await statusOf(never)], ['offline', 'active']);
    assert.deepEqual(await named(''), ['never']);
    assert.deepEqual(await named('status=offline'), ['beats']);
    assert.deepEqual([(await beat(id)).status, (await beat(id)).heartbeats], ['offline', 2]);
    await silence(id, 31);
    assert.equal((await beat(id)).heartbeats, 1);
    await beat(id);
    assert.equal((await beat(id)).status, 'active');
    assert.equal((await beat(id)).status, 'idle');
    const { audit = [], entries = audit } = await read('/v1/audit');
    const acts = (entries as { action: string }[]).map(({ action }) => action);
    assert.ok(acts.includes('agent.lapsed') && acts.includes('agent.returned'), acts.join());
  });

  it('gives the task of an agent that falls silent to another one', async () => {
    isHanging = (brief) => brief.includes('You are slow');
    const capabilities = [{ skill_name: 'law', proficiency: 1 }];
    const { id: slow } = await make('/v1/agents', { name: 'slow', capabilities, system_prompt: 'You are slow' });
    const { id: quick } = await make('/v1/agents', {
      name: 'quick',
      capabilities: [{ ...capabilities[0], proficiency: 0.5 }],
    });
    await beat(slow);
    const requirements = { required_capabilities: ['law'] };
    const { id: task } = await make('/v1/tasks', { description: 'Do it.', requirements }, 202);
    await waitUntil('it is busy', async () => (await statusOf(slow)) === 'busy');
    assert.equal((await beat(slow)).status, 'busy');
    await silence(slow, 31);
    await lapseAgents(api.context);
    assert.equal(await statusOf(slow), 'offline');
    await waitUntil('another one has done it', async () => (await read(`/v1/tasks/${task}`)).status === 'completed');
    const done = await read(`/v1/tasks/${task}`);
    assert.deepEqual([done.assignment.assigned_agent_id, done.retry_count], [quick, 1]);
    await waitUntil('it is free again', async () => (await statusOf(quick)) === 'active');
  });

  it('gives an agent no more tasks at a time than it takes, whoever gives them', async () => {
    const capabilities = [{ skill_name: 'solo' }];
    const { id } = await make('/v1/agents', { name: 'solo', capabilities, constraints: { max_concurrent_tasks: 2 } });
    isHanging = () => true;
    const requirements = { required_capabilities: ['solo'] };
    const submit = () => make('/v1/tasks', { description: 'Do it.', requirements }, 202);
    await Promise.all([1, 2, 3, 4, 5, 6].map(submit));
    const working = async () => (await read('/v1/tasks?status=in_progress')).tasks.length;
    await waitUntil('two are worked on', async () => (await working()) === 2);
    const { agents } = await read('/v1/agents/discover?status=busy&capabilities=solo');
    // 0.5 × 0.5 + 0.25 + 0.15 + 0.10 × (1 − 2 ÷ 2)
    assert.deepEqual([agents[0].id, agents[0].match_score], [id, 0.65]);
    const { tasks } = await read('/v1/tasks?status=in_progress');
    isHanging = () => false;
    for (const { run_id } of tasks) {
      assert.ok((await working()) <= 2);
      await make(`/v1/runs/${run_id}/cancel`, {}, 202);
    }
    await waitUntil('the others are done', async () => {
      assert.ok((await working()) <= 2);
      return (await read('/v1/tasks?status=completed')).tasks.length === 4;
    });
  });

  it('lets a task wait for the only agent that can do it, until that is back', async () => {
    const { id } = await make('/v1/agents', { name: 'only', capabilities: [{ skill_name: 'rare' }] });
    await beat(id);
    await silence(id, 31);
    await lapseAgents(api.context);
    const requirements = { required_capabilities: ['rare'] };
    const { id: task } = await make('/v1/tasks', { description: 'Do it.', requirements }, 202);
    await waitUntil('it was looked at', async () => (await read(`/v1/tasks/${task}`)).status === 'pending');
    for (let n = 0; n < 3; n++) await beat(id);
    await waitUntil('it is done', async () => (await read(`/v1/tasks/${task}`)).status === 'completed');
  });

  it('deprecates who stays offline for a week; a deprecated agent sends no heartbeats', async () => {
    const { id } = await make('/v1/agents', { name: 'gone' });
    await beat(id);
    await silence(id, 31);
    await lapseAgents(api.context);
    await silence(id, 604_801);
    await lapseAgents(api.context);
    assert.equal(await statusOf(id), 'deprecated');
    await make(`/v1/agents/${id}/heartbeat`, {}, 409);
    await make(`/v1/agents/${id}/runs`, { input: { message: 'x' } }, 409);
  });

  it('refuses new runs of an agent that is not active, while those that run go on', async () => {
    isHanging = (brief) => brief.includes('first');
    const { id } = await make('/v1/agents', { name: 'switched' });
    const { run_id } = await make(`/v1/agents/${id}/runs`, { input: { message: 'first' } }, 202);
    const off = await api.call('PATCH', `/v1/agents/${id}`, { key, body: { is_active: false } });
    assert.equal(off.status, 200, off.text);
    const refused = await make(`/v1/agents/${id}/runs`, { input: { message: 'second' } }, 409);
    assert.match(refused.detail, /is_active/);
    assert.deepEqual(await named(''), []);
    assert.notEqual((await read(`/v1/runs/${run_id}`)).status, 'failed');
    await api.call('PATCH', `/v1/agents/${id}`, { key, body: { is_active: null } });
    await make(`/v1/agents/${id}/runs`, { input: { message: 'third' } }, 202);
    assert.equal((await api.call('POST', `/v1/runs/${run_id}/cancel`, { key, body: {} })).status, 202);
  });
});
