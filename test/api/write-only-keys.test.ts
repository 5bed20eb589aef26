import assert from 'node:assert/strict';
import { ROUTES } from '../../api/routes.ts';
import type { Answer } from '../support/api.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

const ABOVE = [
  'PATCH /v1/threads/:thread',
  'PATCH /v1/threads/:thread/conversations/:conversation',
  'POST /v1/runs/:run/complete',
  'POST /v1/runs/:run/cancel',
  'POST /v1/tasks/:id/cancel',
  'PATCH /v1/agents/:id/memory/:entry',
  'POST /v1/handoffs',
  'PATCH /v1/agents/:id',
  'PATCH /v1/tools/:id',
  'PUT /v1/agents/:id',
  'PUT /v1/tools/:id',
  'PATCH /v1/teams/:id',
  'PATCH /v1/mcp-servers/:id',
  'POST /v1/tools/import',
  'POST /v1/memory/write',
  'POST /v1/memory/fragments/:id/resolve',
  'POST /v1/approvals/:id',
];

/** What the answers of the other routes are made of. */
const NOTHING_OF_OTHERS = {
  nothing: [
    'DELETE /v1/agents/:id',
    'DELETE /v1/teams/:id',
    'DELETE /v1/agents/:id/memory/:entry',
    'DELETE /v1/memory/fragments/:id',
    'DELETE /v1/files/:id',
    'DELETE /v1/tools/:id',
  ],
  'ids, counts, times and states': [
    'POST /v1/agents/:id/heartbeat',
    'POST /v1/agents/:id/memory/consolidate',
    'POST /v1/agents/:id/memory/consolidations/:consolidation/revert',
    'POST /v1/agents/:id/memory/forget',
    'POST /v1/runs/cancel',
    'POST /v1/runs/retry',
    'POST /v1/runs/:run/retry',
    'POST /v1/runs/:run/replay',
    'POST /v1/runs/:run/checkpoints',
    'POST /v1/runs/:run/signals',
    'POST /agent/chat',
    'POST /agent/reject',
    'POST /agent/refine',
    'DELETE /agent/session/:id',
  ],
  'what was just made of the request': [
    'POST /v1/agents',
    'POST /v1/teams',
    'POST /v1/tools',
    'POST /v1/agents/:id/memory',
    'POST /v1/memory/spaces',
    'POST /v1/agents/:id/runs',
    'POST /v1/objectives',
    'POST /v1/workflows',
    'POST /v1/tasks',
    'POST /v1/files',
  ],
  'the turn that the request begins': [
    'POST /v1/runs/:run/turns',
    'POST /v1/runs/:run/turns/stream',
    'POST /v1/agents/:id/ui-stream',
    'POST /ag-ui/:agent',
    'GET /acp/:agent',
    'POST /mcp',
    'POST /a2a/:agent',
  ],
  'what is decided on, or stopped, which whoever does so has to know': ['POST /agent/execute', 'POST /agent/interrupt'],
};

describe('A key that writes and may not read', () => {
  let api: ScriptedService;
  let key: string;
  let agent: string;
  before(async () => {
    api = await startScriptedService();
    key = (await api.call('POST', '/v1/api-keys', { body: { name: 'writer', scopes: ['runs:write'] } })).json.key;
    agent = await api.newAgent();
  });
  after(() => api.close());

  /** A key with this scope alone asks; what it is told has nothing of what others have written. */
  async function tells(scope: string, asked: string, body?: object): Promise<Answer> {
    const { key: own } = await made('/v1/api-keys', { name: scope, scopes: [scope] });
    const [method = '', path = ''] = asked.split(' ');
    const answer = await api.call(method, path, { key: own, ...(body && { body }) });
    assert.ok(answer.status < 300 || answer.status === 409, `${asked}: ${answer.text}`);
    assert.doesNotMatch(answer.text, /secret/, asked);
    return answer;
  }

  async function made(path: string, body: object): Promise<Answer['json']> {
    const { status, json, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, text);
    return json;
  }

  /** A run of somebody else's that has said something, and waits between turns. */
  async function secretRun(): Promise<{ run: string; thread: string; turn: string }> {
    const { json } = await api.call('POST', `/v1/agents/${agent}/runs`, {
      body: { input: { message: 'say the secret' }, config: { keep_open: true } },
    });
    const { run_id: run, thread_id: thread, turn_id: turn } = json;
    await waitUntil('it is said', async () => {
      const { json: now } = await api.call('GET', `/v1/runs/${run}`);
      return now.output?.message === 'the secret' && now.status === 'awaiting_human';
    });
    return { run, thread, turn };
  }

  it('goes on with what it has said to an agent, and with nothing of others, as a client of the AI SDK does', async () => {
    const { thread } = await secretRun();
    assert.equal((await api.call('GET', `/v1/threads/${thread}/ui-stream`, { key })).status, 404);
    const body = { id: 'mine', messages: [{ role: 'user', parts: [{ type: 'text', text: 'say what is mine' }] }] };
    await api.call('POST', `/v1/agents/${agent}/ui-stream`, { key, body });
    const { status, text } = await api.call('GET', '/v1/threads/mine/ui-stream', { key });
    assert.deepEqual([status, text.includes('what is mine')], [200, true], text);
    const { key: other } = await made('/v1/api-keys', { name: 'agents', scopes: ['agents:read'] });
    assert.equal((await api.call('GET', '/v1/threads/mine/ui-stream', { key: other })).status, 403);
  });

  it('says nothing to a thread of others over the wire forms, and answers no question there', async () => {
    const input = { message: 'call ask_user {"question":"the secret?"} | say secret' };
    const { run_id: run, thread_id: thread } = await made(`/v1/agents/${agent}/runs`, { input });
    const waits = async () => (await api.call('GET', `/v1/runs/${run}`)).json.waiting_for?.question;
    await waitUntil('it asks', async () => (await waits()) === 'the secret?');
    const message = { id: 'x', role: 'user' };
    const agUi = { threadId: thread, runId: 'x', state: {}, tools: [], context: [], forwardedProps: {} };
    const posted: [string, object][] = [
      [`/ag-ui/${agent}`, { ...agUi, messages: [{ ...message, content: 'x' }] }],
      [`/ag-ui/${agent}`, { ...agUi, messages: [] }],
      [
        `/v1/agents/${agent}/ui-stream`,
        { id: thread, messages: [{ ...message, parts: [{ type: 'text', text: 'x' }] }] },
      ],
      [`/v1/agents/${agent}/ui-stream`, { id: thread, messages: [{ id: 'y', role: 'assistant', parts: [] }] }],
    ];
    for (const [path, body] of posted) {
      const { status, text } = await api.call('POST', path, { key, body });
      assert.equal(status, 404, text);
      assert.doesNotMatch(text, /secret/);
    }
    assert.equal(await waits(), 'the secret?');
  });

  it('changes a thread and a conversation, and is shown nothing of them', async () => {
    const { thread, turn } = await secretRun();
    await api.call('PATCH', `/v1/threads/${thread}`, { body: { title: 'secret', extras: { secret: 1 } } });
    const paths = [`/v1/threads/${thread}`, `/v1/threads/${thread}/conversations/${turn}`];
    for (const path of paths) {
      const looked = await api.call('PATCH', path, { key, body: {} });
      assert.equal(looked.status, 204, looked.text);
      assert.equal(looked.text, '');
      const changed = await api.call('PATCH', path, { key, body: { extras: { mine: true } } });
      assert.equal(changed.status, 204, changed.text);
    }
    const { json } = await api.call('GET', paths[0] ?? '');
    assert.deepEqual([json.title, json.extras], ['secret', { mine: true }]);
    const other = await api.newTenant();
    assert.equal((await api.call('PATCH', paths[0] ?? '', { key: other.key, body: {} })).status, 404);
  });

  it('ends runs, and is not told what they have said', async () => {
    const { run } = await secretRun();
    const completed = await api.call('POST', `/v1/runs/${run}/complete`, { key, body: {} });
    assert.deepEqual([completed.status, completed.json.status], [200, 'completed']);
    const { run: other } = await secretRun();
    for (const status of [202, 200]) {
      const cancelled = await api.call('POST', `/v1/runs/${other}/cancel`, { key, body: {} });
      assert.deepEqual([cancelled.status, cancelled.json.status], [status, 'cancelled']);
      assert.doesNotMatch(cancelled.text + completed.text, /secret/);
    }
    assert.equal((await api.call('POST', `/v1/runs/${other}/cancel`, { body: {} })).json.output.message, 'the secret');
  });

  it('cancels a task, and is not told what it was about', async () => {
    const about = { user_query: 'the secret', context: { secret: 1 } };
    const body = { description: 'held task say the secret', input: about };
    const { json } = await api.call('POST', '/v1/tasks', { body });
    const cancelled = await api.call('POST', `/v1/tasks/${json.task_id}/cancel`, { key, body: {} });
    assert.deepEqual([cancelled.status, cancelled.json.status], [202, 'cancelled']);
    assert.doesNotMatch(cancelled.text, /secret/);
    api.model.release('task');
  });

  it('corrects a memory, and is not told what was remembered', async () => {
    const { key: writer } = (await api.call('POST', '/v1/api-keys', { body: { name: 'w', scopes: ['memory:write'] } }))
      .json;
    const path = `/v1/agents/${agent}/memory`;
    const entry = { memory_type: 'SEMANTIC', content: 'the secret', metadata: { secret: 1 } };
    const { json } = await api.call('POST', path, { body: entry });
    const looked = await api.call('PATCH', `${path}/${json.id}`, { key: writer, body: { importance: 0.6 } });
    assert.deepEqual([looked.status, looked.json.id], [200, json.id]);
    const changed = await api.call('PATCH', `${path}/${json.id}`, { key: writer, body: { content: 'another one' } });
    assert.doesNotMatch(looked.text + changed.text, /secret/);
    const now = await api.call('GET', `${path}/${changed.json.id}`);
    assert.equal(now.json.content, 'another one');
    assert.match(JSON.stringify(now.json.history), /the secret/);
  });

  it('forgets memories, and cannot ask first which of them say something', async () => {
    const { key: writer } = (await api.call('POST', '/v1/api-keys', { body: { name: 'w', scopes: ['memory:write'] } }))
      .json;
    const path = `/v1/agents/${agent}/memory`;
    const entry = { memory_type: 'SEMANTIC', content: 'Ada earns 91000.', metadata: { subject: 'ada' } };
    const { id } = (await api.call('POST', path, { body: entry })).json;
    const forget = (body: object, by?: string) => api.call('POST', `${path}/forget`, { ...(by && { key: by }), body });
    for (const what of [{ query: 'Ada 91000' }, { query: 'Ada 92000' }, { subject: 'ada' }]) {
      const { status, json } = await forget({ ...what, dry_run: true }, writer);
      assert.deepEqual(
        [status, json.detail],
        [403, 'The key does not have the scope "memory:read", which a dry run by `query` or `subject` needs.'],
      );
    }
    assert.equal((await forget({ ids: [id], dry_run: true }, writer)).json.removed.entries, 1);
    assert.deepEqual((await forget({ query: 'Ada 91000', dry_run: true })).json.ids, [id]);
    const { json } = await forget({ query: 'Ada 91000' }, writer);
    assert.deepEqual([json.removed.entries, json.ids], [1, []]);
  });

  it('hands a task over, and is not told what was made of its conversation', async () => {
    const { task_id } = await made('/v1/tasks', { description: 'held handed say the secret' });
    const read = async () => (await api.call('GET', `/v1/tasks/${task_id}`)).json;
    await waitUntil('it is under way', async () => (await read()).status === 'in_progress');
    const agents = {
      source_agent_id: (await read()).assignment.assigned_agent_id,
      target_agent_id: await api.newAgent(),
    };
    const context = { execution_context: { current_progress: 'half of it' } };
    const { json } = await tells('runs:write', 'POST /v1/handoffs', { task_id, ...agents, context, reason: 'enough' });
    assert.deepEqual([json.summary, json.context, json.reason], [{}, context, 'enough']);
    const { summary } = (await api.call('GET', `/v1/handoffs/${json.id}`)).json;
    assert.notDeepEqual(summary, {});
    api.model.release('handed');
  });

  it('publishes versions of agents and tools, and is told which, but not what stands in them', async () => {
    const definition = { name: 'known', system_prompt: 'the secret', description: 'a secret one' };
    const agentPath = `/v1/agents/${(await made('/v1/agents', definition)).id}`;
    const changed = await tells('agents:write', `PATCH ${agentPath}`, { tools: ['calculator'] });
    assert.deepEqual([changed.status, changed.json.name, changed.json.version], [200, 'known', '1.1.0']);
    assert.deepEqual((await api.call('GET', agentPath)).json.tools, ['calculator']);
    const transport = { type: 'http', endpoint: 'http://127.0.0.1:1/secret' };
    const tool = { name: 'known', description: 'a secret', transport, category: 'secret' };
    const toolPath = `/v1/tools/${(await made('/v1/tools', tool)).id}`;
    const published = await tells('tools:write', `PATCH ${toolPath}`, { description: 'another' });
    assert.deepEqual([published.status, published.json.name, published.json.version], [200, 'known', '1.1.0']);
    assert.equal((await api.call('GET', toolPath)).json.description, 'another');
    await api.call('PATCH', agentPath, { body: { external_id: 'known' } });
    const put = await tells('agents:write', 'PUT /v1/agents/ext:known', { name: 'known' });
    assert.deepEqual([put.status, put.json.version], [200, '1.2.0']);
    const put2 = await tells('tools:write', 'PUT /v1/tools/known', { description: 'a third', transport });
    assert.deepEqual([put2.status, put2.json.version], [200, '1.2.0']);
  });

  it('changes teams and MCP servers, and imports tools once more, and is shown nothing of them', async () => {
    const members = [{ agent_id: agent, role: 'secret keeper' }];
    const team = await made('/v1/teams', { name: 'secret team', orchestration_pattern: 'sequential', members });
    const changed = await tells('agents:write', `PATCH /v1/teams/${team.id}`, { name: 'open team' });
    assert.equal(changed.status, 204);
    assert.equal((await api.call('GET', `/v1/teams/${team.id}`)).json.name, 'open team');
    const headers = { authorization: `Bearer ${api.key}` };
    const server = { transport: { type: 'a2a', endpoint: `${api.url}/a2a/${agent}`, headers } };
    const { tools } = await made('/v1/tools/import', server);
    await api.call('PATCH', `/v1/tools/${tools[0].id}`, { body: { category: 'secret' } });
    const again = await tells('tools:write', 'POST /v1/tools/import', server);
    assert.deepEqual(again.json.tools[0].id, tools[0].id);
    const { mcp_servers: servers } = (await api.call('GET', '/v1/mcp-servers')).json;
    const path = `/v1/mcp-servers/${servers[0].id}`;
    assert.equal((await tells('tools:write', `PATCH ${path}`, { suspended: true })).status, 204);
    assert.equal((await api.call('GET', path)).json.suspended, true);
  });

  it('decides on an approval, also once more, and is told only what has become of it', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const input = { message: 'call calculator {"expression":"6*7"}' };
    const { run_id: run } = await made(`/v1/agents/${careful}/runs`, { input });
    let id = '';
    await waitUntil('somebody is asked', async () => {
      id = (await api.call('GET', `/v1/approvals?run_id=${run}`)).json.approvals[0]?.id ?? '';
      return id !== '';
    });
    const path = `/v1/approvals/${id}`;
    const { key: decider } = await made('/v1/api-keys', { name: 'decider', scopes: ['approvals:write'] });
    assert.equal((await api.call('GET', path, { key: decider })).status, 403);
    const decide = (by: string) => api.call('POST', path, { key: by, body: { decision: 'deny', reason: 'a secret' } });
    const told = { id, approval_id: id, status: 'denied' };
    assert.deepEqual((await decide(decider)).json, told);
    assert.deepEqual((await decide(decider)).json, told);
    assert.deepEqual((await decide(api.key)).json.arguments, { expression: '6*7' });
  });

  it('writes into a shared space, and is not told what others have written there', async () => {
    const { id: space } = await made('/v1/memory/spaces', { name: 'shared' });
    const data = { a: 'the secret', b: 1 };
    const content = (given: object) => ({ type: 'structured', data: given });
    const write = { space_id: space, provenance: { sources: ['a secret source'] } };
    const { id } = await made('/v1/memory/write', { ...write, content: content(data), allowed_agents: ['secret'] });
    const next = { space_id: space, fragment_id: id, agent_id: 'secret' };
    await made('/v1/memory/write', { ...next, content: content({ ...data, b: 2 }) });
    const writing = 'POST /v1/memory/write';
    const mine = { ...next, content: content({ ...data, a: 'open', b: 1 }) };
    const merged = await tells('memory:write', writing, { ...mine, base_version: 1, agent_id: 'secret' });
    assert.deepEqual([merged.status, merged.json.version, merged.json.merged], [201, 3, true]);
    const stale = await tells('memory:write', writing, { ...mine, content: content({ a: 'x' }), expected_version: 1 });
    assert.deepEqual([stale.status, stale.json.current_version], [409, 3]);
    await made('/v1/memory/write', {
      ...next,
      content: content({ ...data, b: 2 }),
      conflict_type: 'semantic_conflict',
    });
    const resolved = { content: content({ a: 'settled' }), agent_id: 'secret' };
    assert.equal((await tells('memory:write', `POST /v1/memory/fragments/${id}/resolve`, resolved)).json.version, 5);
    const own = await tells('memory:write', writing, { space_id: space, content: content({ mine: true }) });
    assert.deepEqual(own.json.content.data, { mine: true }, 'what it has written itself it may see');
  });

  it('has tests above, or elsewhere, for every route that takes its scopes', () => {
    const writes = ROUTES.filter(({ access }) => /^(agents|tools|memory|runs|approvals):write$/.test(access));
    const pathOf = (path: string) => path.replace(/^\/v1\/agents\/:id\/runs\/:run\//, '/v1/runs/:run/');
    const paths = new Set(writes.map(({ method, path }) => `${method.toUpperCase()} ${pathOf(path)}`));
    assert.deepEqual([...paths].toSorted(), [...ABOVE, ...Object.values(NOTHING_OF_OTHERS).flat()].toSorted());
  });
});
