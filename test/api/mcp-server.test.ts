/** Drover's MCP server, used by the official client. */
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, CreateTaskResultSchema, type CallToolResult } from '@modelcontextprotocol/sdk/types.js';
import { toolNames } from '../../api/mcp/names.ts';
import { newId } from '../../lib/new-id.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Answered {
  run: { run_id: string; thread_id: string; status: string; waits?: { wait_id: string; type: string }[] };
  turn?: { output: { message: string; status: string } };
}

describe("Drover's MCP server", () => {
  let api: ScriptedService;
  let client: Client;
  const clients: Client[] = [];

  const connect = async (key: string): Promise<Client> => {
    const made = new Client({ name: 'test', version: '1.0.0' });
    const requestInit = { headers: { authorization: `Bearer ${key}` } };
    const transport = new StreamableHTTPClientTransport(new URL(`${api.url}/mcp`), { requestInit });
    await made.connect(transport);
    clients.push(made);
    return made;
  };
  const ask = async (name: string, args: Record<string, unknown>, by = client) => {
    const result = (await by.callTool({ name, arguments: args })) as CallToolResult;
    const [block] = result.content;
    assert.ok(block?.type === 'text');
    return {
      text: block.text,
      isError: result.isError === true,
      data: result.structuredContent as unknown as Answered,
    };
  };
  const newKey = async (scopes: string[]): Promise<string> =>
    (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json.key;

  before(async () => {
    api = await startScriptedService();
    const tools = ['ask_user', 'calculator', 'http_get'];
    const body = { name: 'Mail & more', description: 'Answers mail.', tools };
    await api.call('POST', '/v1/agents', { body });
    await api.call('POST', '/v1/agents', { body: { name: 'Mail + more', tools } });
    client = await connect(api.key);
  });
  after(async () => {
    await Promise.all(clients.map((each) => each.close()));
    await api.close();
  });

  it('refuses parameters of another form than the protocol gives them as such', async () => {
    const headers = { accept: 'application/json, text/event-stream' };
    for (const [method, params] of [
      ['initialize', { protocolVersion: 5 }],
      ['tools/list', { cursor: 5 }],
      ['tools/call', { name: 5 }],
      ['tools/call', {}],
      ['tools/call', { name: 'get_run', arguments: [] }],
      ['tasks/get', {}],
      ['tasks/result', { taskId: 5 }],
      ['tasks/list', { cursor: {} }],
      ['tasks/cancel', undefined],
    ] as const) {
      const body = { jsonrpc: '2.0', id: 7, method, params };
      const { status, text } = await api.call('POST', '/mcp', { body, headers });
      assert.match(text, /"code":-32602/, method);
      assert.deepEqual([status, /"id":7/.test(text)], [200, true], text);
    }
  });

  it('lists the agents of the workspace, and what a key may do with their runs', async () => {
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['list_runs', 'get_run', 'decide_approval', 'run_Mail___more', 'run_Mail___more_2'],
    );
    assert.equal(tools[3]?.description, 'Answers mail.');
    assert.deepEqual(tools[3]?.inputSchema.required, ['message']);
    await assert.rejects(client.listTools({ cursor: 'x' }), /-32602.*none of this list/);
    const writer = await connect(await newKey(['runs:write']));
    assert.deepEqual(
      (await writer.listTools()).tools.map(({ name }) => name),
      ['run_Mail___more', 'run_Mail___more_2'],
    );
    const { key } = await api.newTenant();
    assert.deepEqual((await (await connect(key)).listTools()).tools.length, 3, 'of another tenant');
    await assert.rejects(connect(await newKey(['runs:read'])), /runs:write/);
    await assert.rejects(connect('wrong'), /401|unknown/i);
  });

  it('runs an agent, says how far it is, answers, and goes on with the conversation', async () => {
    const told: string[] = [];
    const message = 'call calculator {"expression":"6*7"} | say it is 42';
    const result = (await client.callTool({ name: 'run_Mail___more', arguments: { message } }, undefined, {
      onprogress: ({ message: step }) => told.push(step ?? ''),
    })) as CallToolResult;
    assert.deepEqual(result.content, [{ type: 'text', text: 'it is 42' }]);
    assert.ok(told.includes('step 1: model.responded'), told.join());
    const { run } = result.structuredContent as unknown as Answered;
    assert.equal(run.status, 'completed');
    const next = await ask('run_Mail___more', { message: 'say again', thread_id: run.thread_id });
    assert.equal(next.text, 'again');
    assert.equal(next.data.run.thread_id, run.thread_id);
    const listed = await ask('list_runs', { thread_id: run.thread_id });
    const { runs } = listed.data as unknown as { runs: { run_id: string }[] };
    assert.deepEqual(
      runs.map(({ run_id }) => run_id),
      [next.data.run.run_id, run.run_id],
    );
  });

  it('notes of a message that characters were replaced', async () => {
    const { data } = await ask('run_Mail___more', { message: 'say a\u0000b' });
    const { events } = (await api.call('GET', `/v1/runs/${data.run.run_id}/events?types=turn.started`)).json;
    assert.deepEqual(events[0].payload.input, { message: 'say a\uFFFDb', replaced: 1 });
  });

  it('tells what a run waits for, lets an approval be decided, and waits for what comes of it', async () => {
    const policy = { name: 'ask', priority: 1, when: 'tool == "calculator"', decision: 'require_approval' };
    const { json: made } = await api.call('POST', '/v1/policies', { body: policy });
    const asked = await ask('run_Mail___more', { message: 'call calculator {"expression":"1+1"} | say two' });
    const [wait] = asked.data.run.waits ?? [];
    assert.equal(wait?.type, 'approval');
    assert.match(asked.text, /waits/);
    const reader = await connect(await newKey(['runs:write', 'runs:read']));
    await assert.rejects(ask('decide_approval', { approval_id: wait.wait_id, decision: 'approve' }, reader), /no tool/);
    const decided = await ask('decide_approval', { approval_id: wait.wait_id, decision: 'approve' });
    assert.equal(decided.text, 'The approval is approved.');
    const again = await ask('decide_approval', { approval_id: wait.wait_id, decision: 'deny' });
    assert.ok(again.isError, again.text);
    const done = await ask('get_run', { run_id: asked.data.run.run_id, wait_seconds: 60 });
    assert.equal(done.text, 'two');
    await api.call('DELETE', `/v1/policies/${made.id}`);
  });

  it('takes the answer to a question as a call in its thread, once', async () => {
    const asked = await ask('run_Mail___more', { message: 'call ask_user {"question":"Which?"} | say thanks' });
    assert.match(asked.text, /Which\?/);
    const { run_id, thread_id } = asked.data.run;
    const session = newId();
    const answer = async (message: string) => {
      const params = { name: 'run_Mail___more', arguments: { message, thread_id } };
      const { text } = await api.call('POST', '/mcp', {
        body: { jsonrpc: '2.0', id: 'answer', method: 'tools/call', params },
        headers: { accept: 'application/json, text/event-stream', 'mcp-session-id': session },
      });
      return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? '').result;
    };
    const [one, two] = [await answer('the blue one'), await answer('the blue one')];
    for (const { structuredContent: data } of [one, two]) {
      assert.deepEqual([data.run.run_id, data.turn.output.message], [run_id, 'thanks']);
    }
    assert.equal((await answer('another')).isError, true);
    const { json } = await api.call('GET', `/v1/runs?thread_id=${thread_id}`);
    assert.equal(json.runs.length, 1);
    const { key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } })).json;
    const other = await ask('run_Mail___more', { message: 'call ask_user {"question":"Whose?"} | say thanks' });
    const stranger = { message: 'mine', thread_id: other.data.run.thread_id };
    assert.match((await ask('run_Mail___more', stranger, await connect(key))).text, /unfinished/);
  });

  it('cancels the run of a call that its client cancels, in whatever process it is', async () => {
    const stop = new AbortController();
    const call = client.callTool({ name: 'run_Mail___more', arguments: { message: 'hang say never' } }, undefined, {
      signal: stop.signal,
    });
    call.catch(() => undefined);
    await waitUntil('the model is asked', () => api.model.asked('hang say never').length === 1);
    stop.abort();
    await assert.rejects(call);
    await waitUntil('the run is cancelled', async () => {
      const { json } = await api.call('GET', '/v1/runs?status=cancelled');
      return json.runs.length === 1;
    });
  });

  it('does not answer a call that its client has cancelled, but one whose run somebody else cancels', async () => {
    const send = (body: unknown) => {
      const headers = { accept: 'application/json, text/event-stream', 'mcp-session-id': 'cancelling' };
      return api.call('POST', '/mcp', { headers, body });
    };
    const begin = async (id: number, said: string) => {
      const params = { name: 'run_Mail___more', arguments: { message: `hang say ${said}` } };
      const answer = send({ jsonrpc: '2.0', id, method: 'tools/call', params });
      await waitUntil('the model is asked', () => api.model.asked(`hang say ${said}`).length === 1);
      return { answer };
    };
    const { answer } = await begin(1, 'unheard');
    const params = { requestId: 1 };
    assert.equal((await send({ jsonrpc: '2.0', method: 'notifications/cancelled', params })).status, 202);
    const { status, text } = await answer;
    assert.equal(status, 200);
    assert.ok(!text.includes('jsonrpc'), text);

    const other = await begin(2, 'stopped elsewhere');
    const { json } = await api.call('GET', '/v1/runs?limit=1');
    await api.call('POST', `/v1/runs/${json.runs[0].run_id}/cancel`, { body: {} });
    assert.match((await other.answer).text, /"id":2/);
  });

  it('says of a run that was cancelled that it was, as an error', async () => {
    const params = { name: 'run_Mail___more', arguments: { message: 'hang say no more' }, task: {} };
    const { taskId } = (await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)).task;
    await client.experimental.tasks.cancelTask(taskId);
    const told = await ask('get_run', { run_id: taskId });
    assert.deepEqual([told.text, told.isError], [`The run ${taskId} was cancelled.`, true]);
    const { content, isError } = await client.experimental.tasks.getTaskResult(taskId, CallToolResultSchema);
    assert.deepEqual([content, isError], [[{ type: 'text', text: told.text }], true]);

    const answered = await ask('run_Mail___more', { message: 'say heard' });
    assert.deepEqual([answered.text, answered.isError], ['heard', false]);
  });

  it('heeds no cancellation of a call that was answered, or was made as a task', async () => {
    const send = (body: object) => {
      const headers = { accept: 'application/json, text/event-stream', 'mcp-session-id': 'late' };
      return api.call('POST', '/mcp', { headers, body: { jsonrpc: '2.0', ...body } });
    };
    const begin = (id: number, args: { message: string; wait_seconds?: number }, task?: object) =>
      send({ id, method: 'tools/call', params: { name: 'run_Mail___more', arguments: args, task } });
    const cancel = (requestId: number) => send({ method: 'notifications/cancelled', params: { requestId } });
    const statusOf = async (run: string) => (await api.call('GET', `/v1/runs/${run}`)).json.status;
    const runOf = (text: string) => /"(?:run_id|taskId)":"([^"]+)"/.exec(text)?.[1] ?? text;
    const asking = runOf((await begin(1, { message: 'call ask_user {"question":"Which?"}' })).text);
    const working = runOf((await begin(2, { message: 'hang say late', wait_seconds: 0 })).text);
    const asTask = runOf((await begin(3, { message: 'hang say tasked' }, {})).text);
    const heeded = begin(4, { message: 'hang say heeded' });
    await waitUntil('the model is asked', () => api.model.asked('hang say heeded').length === 1);
    const { json } = await api.call('GET', '/v1/runs?limit=1');
    // The last one shows that those before it were taken.
    for (const id of [1, 2, 3, 4]) assert.equal((await cancel(id)).status, 202);
    assert.ok(!(await heeded).text.includes('jsonrpc'));
    await waitUntil('it is cancelled', async () => (await statusOf(json.runs[0].run_id)) === 'cancelled');
    assert.equal(await statusOf(asking), 'awaiting_human');
    for (const run of [working, asTask]) assert.notEqual(await statusOf(run), 'cancelled');
    for (const run of [asking, working, asTask]) await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
  });

  it('cancels the run of a call whose cancellation has come before it', async () => {
    const send = (body: object) => {
      const headers = { accept: 'application/json, text/event-stream', 'mcp-session-id': 'early' };
      return api.call('POST', '/mcp', { headers, body: { jsonrpc: '2.0', ...body } });
    };
    const call = (id: number, name: string, args: object) =>
      send({ id, method: 'tools/call', params: { name, arguments: args } });
    const going = await ask('run_Mail___more', { message: 'hang say going', wait_seconds: 0 });
    const { run_id } = going.data.run;
    for (const requestId of [1, 2]) await send({ method: 'notifications/cancelled', params: { requestId } });
    // The wait ends with the second one, so that the first was taken as well.
    assert.ok(!(await call(2, 'get_run', { run_id, wait_seconds: 600 })).text.includes('jsonrpc'));
    assert.ok(!(await call(1, 'run_Mail___more', { message: 'hang say early' })).text.includes('jsonrpc'));
    const { json } = await api.call('GET', '/v1/runs?limit=1');
    assert.deepEqual([json.runs[0].status, json.runs[0].run_id === run_id], ['cancelled', false]);
    await api.call('POST', `/v1/runs/${run_id}/cancel`, { body: {} });
  });

  it('does not answer a wait that its client has cancelled, and leaves the run alone', async () => {
    const send = (body: unknown) => {
      const headers = { accept: 'application/json, text/event-stream', 'mcp-session-id': 'waiting' };
      return api.call('POST', '/mcp', { headers, body });
    };
    const started = { name: 'run_Mail___more', arguments: { message: 'hang say waited for' }, task: {} };
    const { taskId } = (await client.request({ method: 'tools/call', params: started }, CreateTaskResultSchema)).task;
    const waits = [
      { id: 1, method: 'tools/call', params: { name: 'get_run', arguments: { run_id: taskId, wait_seconds: 600 } } },
      { id: 2, method: 'tasks/result', params: { taskId } },
    ];
    for (const { id, method, params } of waits) {
      const answer = send({ jsonrpc: '2.0', id, method, params });
      const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } };
      assert.equal((await send(cancelled)).status, 202);
      const { status, text } = await answer;
      assert.equal(status, 200);
      assert.ok(!text.includes('jsonrpc'), text);
    }
    assert.equal((await api.call('GET', `/v1/runs/${taskId}`)).json.completed_at, null, 'the run goes on');
    await api.call('POST', `/v1/runs/${taskId}/cancel`, { body: {} });
  });

  it('has a call as a task: it is looked at, its result is waited for, and it is cancelled', async () => {
    const { tasks } = client.experimental;
    const seen: string[] = [];
    const call = { name: 'run_Mail___more', arguments: { message: 'wait 300 say as a task' } };
    let taskId = '';
    for await (const told of tasks.callToolStream(call, undefined, { task: { ttl: 60_000 } })) {
      seen.push(told.type);
      if (told.type === 'taskCreated') ({ taskId } = told.task);
      if (told.type === 'error') throw told.error;
      if (told.type === 'result') assert.deepEqual(told.result['content'], [{ type: 'text', text: 'as a task' }]);
    }
    assert.deepEqual([seen[0], seen.at(-1)], ['taskCreated', 'result']);
    assert.equal((await tasks.getTask(taskId)).status, 'completed');
    assert.equal((await api.call('GET', `/v1/runs/${taskId}`)).json.status, 'completed');
    await assert.rejects(tasks.cancelTask(taskId), /completed already/);

    const start = async (message: string) => {
      const params = { name: 'run_Mail___more', arguments: { message }, task: {} };
      return (await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)).task;
    };
    const long = await start('hang say nothing');
    assert.equal((await tasks.getTask(long.taskId)).status, 'working');
    assert.equal((await tasks.cancelTask(long.taskId)).status, 'cancelled');
    const asking = await start('call ask_user {"question":"Which?"}');
    await waitUntil('it asks', async () => (await tasks.getTask(asking.taskId)).status === 'input_required');
    const waiting = await tasks.getTaskResult(asking.taskId, CallToolResultSchema);
    assert.match(JSON.stringify(waiting.content), /waits: .*Which/);
    assert.equal((await tasks.cancelTask(asking.taskId)).status, 'cancelled');
    await assert.rejects(tasks.getTask(newId()), /no such task/);
    await assert.rejects(tasks.getTask('x'), /no such task/);
    const stranger = await connect((await api.newTenant()).key);
    await assert.rejects(stranger.experimental.tasks.getTask(taskId), /no such task/);
    const params = { name: 'list_runs', arguments: {}, task: {} };
    await assert.rejects(client.request({ method: 'tools/call', params }, CreateTaskResultSchema), /makes no tasks/);
  });

  it('lists tasks and runs page by page, and shows a key that may not read runs those alone that it has asked for', async () => {
    const start = async (by: Client) => {
      const params = { name: 'run_Mail___more', arguments: { message: 'say listed' }, task: {} };
      return (await by.request({ method: 'tools/call', params }, CreateTaskResultSchema)).task.taskId;
    };
    const writer = await connect(await newKey(['runs:write']));
    const theirs = await start(writer);
    // More than a page of 50.
    const mine = [];
    for (let n = 0; n < 51; n++) mine.push(await start(client));
    const { tasks } = client.experimental;
    const first = await tasks.listTasks();
    const second = await tasks.listTasks(first.nextCursor);
    const listed = [...first.tasks, ...second.tasks].map(({ taskId }) => taskId);
    assert.deepEqual(listed.slice(0, 52), [...mine.toReversed(), theirs]);
    await assert.rejects(tasks.listTasks('x'), /none of this list/);

    const runs = (await ask('list_runs', { limit: 2 })).data as unknown as {
      runs: { run_id: string }[];
      next_cursor: string;
    };
    const more = (await ask('list_runs', { limit: 2, cursor: runs.next_cursor })).data as unknown as typeof runs;
    assert.deepEqual(
      [...runs.runs, ...more.runs].map((run) => run.run_id),
      mine.toReversed().slice(0, 4),
    );

    const asWriter = writer.experimental.tasks;
    assert.equal((await asWriter.getTask(theirs)).taskId, theirs);
    const result = await asWriter.getTaskResult(theirs, CallToolResultSchema);
    assert.deepEqual(result.content, [{ type: 'text', text: 'listed' }]);
    await assert.rejects(asWriter.getTask(mine[0] ?? ''), /no such task/);
    await assert.rejects(asWriter.getTaskResult(mine[0] ?? '', CallToolResultSchema), /no such task/);
    await assert.rejects(asWriter.cancelTask(mine[0] ?? ''), /no such task/);
    await assert.rejects(asWriter.listTasks(), /runs:read/);
  });

  it('goes on where its client leaves, and answers a call that is sent again with the same run', async () => {
    const leaving = await connect(api.key);
    const call = leaving.callTool({ name: 'run_Mail___more', arguments: { message: 'wait 300 say stayed' } });
    call.catch(() => undefined);
    await waitUntil('the model is asked', () => api.model.asked('say stayed').length === 1);
    await leaving.close();
    await waitUntil('the run has completed', async () => {
      const { json } = await api.call('GET', '/v1/runs?limit=1');
      return json.runs[0].status === 'completed' && json.runs[0].output.message === 'stayed';
    });
    const send = async (said = 'once') => {
      const message = { name: 'run_Mail___more', arguments: { message: `say ${said}` } };
      const { text } = await api.call('POST', '/mcp', {
        headers: { accept: 'application/json, text/event-stream', 'mcp-session-id': 'here' },
        body: { jsonrpc: '2.0', id: 7, method: 'tools/call', params: message },
      });
      return /"run_id":"([^"]+)"/.exec(text)?.[1] ?? text;
    };
    const first = await send();
    assert.match(first, /^[0-9a-f-]{36}$/);
    assert.equal(await send(), first);
    assert.match(await send('another'), /"isError":true/);
    assert.match(await send('another'), /each call needs an id of its own/);
  });

  it('ends the answer to a key that is revoked', async () => {
    const { id, key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } })).json;
    const message = { name: 'run_Mail___more', arguments: { message: 'hang say watched' } };
    const answer = api.call('POST', '/mcp', {
      key,
      headers: { accept: 'application/json, text/event-stream' },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: message },
    });
    await waitUntil('the model is asked', () => api.model.asked('hang say watched').length === 1);
    await api.call('DELETE', `/v1/api-keys/${id}`);
    await answer;
    const { json } = await api.call('GET', '/v1/runs?limit=1');
    assert.equal(json.runs[0].completed_at, null, 'the work goes on');
    await api.call('POST', `/v1/runs/${json.runs[0].run_id}/cancel`, { body: {} });
  });

  it('says what is wrong with a call, in words that a model can mend', async () => {
    const missing = await ask('run_Mail___more', { text: 'hello' });
    assert.ok(missing.isError && /message/.test(missing.text), missing.text);
    const nowhere = await ask('get_run', { run_id: '01a00000-0000-7000-8000-000000000000' });
    assert.ok(nowhere.isError && /not-found/.test(nowhere.text), nowhere.text);
    await assert.rejects(ask('run_nobody', { message: 'x' }), /no tool "run_nobody"/);
    const { status, json } = await api.call('POST', '/mcp', { body: { jsonrpc: '2.0', id: 1, method: 'ping' } });
    assert.deepEqual([status, json.status], [406, 406]);
    assert.equal((await api.call('GET', '/mcp')).status, 405);
    const notification = await api.call('POST', '/mcp', {
      headers: { accept: 'application/json, text/event-stream' },
      body: { jsonrpc: '2.0', method: 'notifications/initialized' },
    });
    assert.deepEqual([notification.status, notification.text], [202, '']);
  });

  it('names tools as every client takes them', () => {
    const long = 'x'.repeat(80);
    const names = [...toolNames([{ name: long }, { name: long }, { name: 'é' }]).keys()];
    assert.deepEqual(names, [`run_${'x'.repeat(56)}`, `run_${'x'.repeat(54)}_2`, 'run__']);
  });

  it('finds an agent by its tool name among those alone that could bear it', async () => {
    const { key } = await api.newTenant();
    const long = 'y'.repeat(70);
    const made = ['x?', 'x!', 'x__2', 'x_ 2', 'x', 'other', 'x_', long, `${long}2`, `${long}3`, 'é', '😀', 'xy', 'X'];
    const ids = new Map<string, string>();
    for (const name of made) {
      const { status, json, text } = await api.call('POST', '/v1/agents', { key, body: { name, tools: [] } });
      assert.equal(status, 201, text);
      ids.set(name, json.id);
    }
    const mine = await connect(key);
    for (const [name, { name: of }] of toolNames(made.map((each) => ({ name: each })))) {
      const { data, text } = await ask(name, { message: 'say x', wait_seconds: 0 }, mine);
      const { json: run } = await api.call('GET', `/v1/runs/${data.run.run_id}`, { key });
      assert.equal(run.agent_id, ids.get(of), `${name}: ${text}`);
    }
    await assert.rejects(ask('run_x_9', { message: 'x' }, mine), /no tool/);
    await assert.rejects(ask('run_', { message: 'x' }, mine), /no tool/);
  });
});
