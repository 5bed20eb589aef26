import assert from 'node:assert/strict';
import { openTestPlatform, type TestPlatform } from '../support/platform.ts';
import { request } from '../support/api.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('threads', () => {
  let platform: TestPlatform;
  let agent: string;
  before(async () => {
    platform = await openTestPlatform(undefined, { workers: true, api: true, env: { DROVER_MODEL: 'offline' } });
    agent = (await call('POST', '/v1/agents', { name: 'keeper' })).json.id;
  });
  after(() => platform.close());

  const call = (method: string, path: string, body?: unknown) =>
    request(`${platform.url}${path}`, method, { key: platform.apiKey, ...(body !== undefined && { body }) });
  const run = async (message: string, more: Record<string, unknown> = {}) => {
    const { json } = await call('POST', `/v1/agents/${agent}/runs`, { input: { message }, ...more });
    await waitUntil('the run ends', async () => {
      const { json: now } = await call('GET', `/v1/runs/${json.run_id}`);
      return now.status === 'completed';
    });
    return json as { run_id: string; thread_id: string };
  };

  it('get their titles after the first turn, and know how many runs they have had', async () => {
    const { thread_id: id, run_id: first } = await run('What is 2 + 3?');
    await waitUntil('the title is there', async () => (await call('GET', `/v1/threads/${id}`)).json.title !== null);
    const { run_id: second } = await run('And 4 + 5?', { thread_id: id });
    const { json } = await call('GET', `/v1/threads/${id}`);
    assert.equal(json.title, 'What is 2 + 3?');
    assert.equal(json.total_runs, 2);
    assert.equal(json.last_run_id, second);
    const { json: last } = await call('GET', `/v1/runs/${second}`);
    assert.equal(json.last_run_at, last.created_at);
    assert.equal(json.last_run_status, 'completed');
    assert.notEqual(first, second);
  });

  it('keep the title and the extras that a client gives them', async () => {
    const { thread_id: id } = await run('Hello');
    const changed = await call('PATCH', `/v1/threads/${id}`, { title: ' Mine\n', extras: { user_id: 'u1', n: [1] } });
    assert.equal(changed.status, 200);
    assert.equal(changed.json.title, 'Mine');
    assert.deepEqual((await call('PATCH', `/v1/threads/${id}`, { extras: { only: true } })).json.extras, {
      only: true,
    });
    assert.equal((await call('GET', `/v1/threads/${id}`)).json.title, 'Mine');
    assert.equal((await call('PATCH', `/v1/threads/${id}`, { title: null })).json.title, null);
    assert.equal((await call('PATCH', `/v1/threads/${id}`, { name: 'x' })).status, 400);
    assert.equal((await call('PATCH', `/v1/threads/${id}`, { title: 'x'.repeat(300) })).status, 400);
    assert.equal((await call('PATCH', `/v1/threads/${id}`, { extras: { x: 'x'.repeat(70_000) } })).status, 400);
  });

  it('say what they are taken up with again', async () => {
    const llm_config = {
      max_tokens: 5000,
      thinking_tokens: 2048,
      server_tools: [{ type: 'web_search_20250305', name: 'web_search' }],
      beta_headers: ['a-2025'],
      api_kwargs: { top_p: 0.5 },
      max_retries: 5,
    };
    const { json: searcher } = await call('POST', '/v1/agents', {
      name: 'searcher',
      llm_config,
      tools: ['calculator'],
    });
    const { json: started } = await call('POST', `/v1/agents/${searcher.id}/runs`, {});
    const { json } = await call('GET', `/v1/threads/${started.thread_id}`);
    const { tool_schemas, ...resumption } = json.resumption;
    assert.deepEqual(
      tool_schemas.map(({ name }: { name: string }) => name),
      ['calculator'],
    );
    assert.deepEqual(resumption, {
      ...llm_config,
      agent_version: '1.0.0',
      system_prompt: null,
      model: 'offline/offline',
      max_steps: 25,
      base_delay: 1,
      container_id: null,
      tool_names: ['calculator'],
      compactor_type: 'fifo',
      memory_store_type: 'none',
      last_known_input_tokens: null,
      last_known_output_tokens: null,
      current_step: 0,
      awaiting_frontend_tools: false,
      pending_frontend_tools: [],
      pending_backend_results: [],
    });
    const refused = await Promise.all(
      [
        { thinking_tokens: 10 },
        { thinking_tokens: 4096 },
        { api_kwargs: { messages: [] } },
        { api_kwargs: { mcp_servers: [{ authorization_token: 'x' }] } },
        { server_tools: [{ name: 'no type' }] },
        { beta_headers: ['a,b'] },
      ].map((llm) => call('POST', '/v1/agents', { name: 'refused', llm_config: llm })),
    );
    assert.deepEqual(
      refused.map(({ status }) => status),
      [400, 422, 400, 400, 400, 400],
    );
    const { json: key } = await call('POST', '/v1/api-keys', { name: 'editor', scopes: ['agents:write'] });
    const body = { name: 'mine', llm_config: { server_tools: llm_config.server_tools } };
    assert.equal((await request(`${platform.url}/v1/agents`, 'POST', { key: key.key, body })).status, 403);
  });

  it('are listed newest first, of one agent where one is named', async () => {
    const ids = [await run('one'), await run('two')].map(({ thread_id }) => thread_id);
    const { json: page } = await call('GET', '/v1/threads?limit=1');
    assert.deepEqual([page.threads.length, page.threads[0].id], [1, ids[1]]);
    const { json: next } = await call('GET', `/v1/threads?limit=1&cursor=${page.next_cursor}`);
    assert.equal(next.threads[0].id, ids[0]);
    const other = (await call('POST', '/v1/agents', { name: 'another' })).json.id;
    assert.deepEqual((await call('GET', `/v1/threads?agent_id=${other}`)).json.threads, []);
    assert.equal((await call('GET', `/v1/threads?agent_id=${ids[0]}`)).status, 404);
    assert.equal((await call('GET', `/v1/threads/${agent}`)).status, 404);
  });

  it('are listed newest first whatever ids their clients have given them', async () => {
    const { json: own } = await call('POST', '/v1/agents', { name: 'named' });
    const begin = async (id: string) => {
      const stream = await call('POST', `/v1/agents/${own.id}/ui-stream`, {
        id,
        messages: [{ id: `first of ${id}`, role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
      });
      assert.equal(stream.status, 200);
    };
    const list = async (query: string) => (await call('GET', `/v1/threads?agent_id=${own.id}${query}`)).json;
    for (const name of ['one', 'two', 'three', 'four', 'five', 'six']) await begin(name);
    const all = await list('');
    const created = all.threads.map(({ created_at }: { created_at: string }) => created_at);
    assert.equal(created.length, 6);
    assert.deepEqual(created, created.toSorted().toReversed());
    const first = await list('&limit=4');
    const second = await list(`&limit=4&cursor=${first.next_cursor}`);
    assert.deepEqual([...first.threads, ...second.threads], all.threads);
    assert.equal(second.next_cursor, undefined);
  });

  it('lose title and extras when they are erased', async () => {
    const { thread_id: id } = await run('A secret');
    await call('PATCH', `/v1/threads/${id}`, { title: 'Secret title', extras: { a: 'secret' } });
    assert.equal((await call('DELETE', `/v1/threads/${id}`)).status, 202);
    const { json } = await call('GET', `/v1/threads/${id}`);
    assert.deepEqual([json.title, json.extras], [null, {}]);
    assert.ok(json.erased_at);
    assert.equal((await call('PATCH', `/v1/threads/${id}`, { title: 'again' })).status, 409);
  });
});
