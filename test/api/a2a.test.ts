/** Agents over A2A, used by the official client. */
import assert from 'node:assert/strict';
import { ListTasksRequest, SendMessageRequest, TaskState, type StreamResponse, type Task } from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client';
import { newId } from '../../lib/new-id.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

const OTHER_NAMES = ['banana', 'user', 'agent', 'ROLE_AGENT', 'Role_Agent', 'ROLE_SYSTEM', 'ROLE_UNSPECIFIED', ''];
const OTHER_ROLES = [...OTHER_NAMES, null, undefined, {}, 0, 2, 7];

type A2aClient = Awaited<ReturnType<ClientFactory['createFromUrl']>>;

describe('an agent over A2A', () => {
  let api: ScriptedService;
  let agent: string;
  let client: A2aClient;

  const connect = (key: string): Promise<A2aClient> => {
    const fetchImpl: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      headers.set('authorization', `Bearer ${key}`);
      return fetch(input, { ...init, headers });
    };
    const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    });
    return new ClientFactory(options).createFromUrl(`${api.url}/a2a/${agent}/`, '.well-known/agent-card.json');
  };
  const words = (text: string, more: Record<string, unknown> = {}, configuration: Record<string, unknown> = {}) =>
    SendMessageRequest.fromJSON({
      message: { messageId: newId(), role: 'ROLE_USER', parts: [{ text }], ...more },
      configuration,
    });
  const say = async (request: SendMessageRequest): Promise<Task> => {
    const sent = await client.sendMessage(request);
    assert.ok('history' in sent);
    return sent;
  };
  const textsOf = ({ artifacts }: Task) =>
    artifacts.flatMap(({ parts }) => parts.map(({ content }) => (content?.$case === 'text' ? content.value : '?')));
  const stateOf = (task: Task) => task.status?.state;
  const rpc = async (method: string, params: unknown, { path = `/a2a/${agent}`, version = '1.0' } = {}) => {
    const body = { jsonrpc: '2.0', id: 1, method, params };
    return (await api.call('POST', path, { body, headers: { 'a2a-version': version } })).json;
  };

  before(async () => {
    api = await startScriptedService();
    const capabilities = [
      { skill_name: 'letters', domain: 'post' },
      { skill_name: 'letters', domain: 'law' },
      { skill_name: 'run' },
    ];
    const body = { name: 'mail', description: 'Answers mail.', tools: ['ask_user', 'calculator'], capabilities };
    agent = (await api.call('POST', '/v1/agents', { body })).json.id;
    client = await connect(api.key);
  });
  after(() => api.close());

  it('has a card, for whoever has a key of its tenant', async () => {
    const card = await client.getAgentCard();
    assert.deepEqual([card.name, card.description, card.version], ['mail', 'Answers mail.', '1.0.0']);
    assert.equal(card.supportedInterfaces[0]?.url, `${api.url}/a2a/${agent}`);
    assert.deepEqual(
      card.skills.map(({ id, tags }) => [id, tags]),
      [
        ['run', ['agent']],
        ['letters', ['letters', 'post', 'law']],
      ],
    );
    const { key } = await api.newTenant();
    await assert.rejects(connect(key), /404/);
    await assert.rejects(connect('wrong'), /401/);
  });

  it('answers a message as a task, and goes on with its context', async () => {
    const task = await say(words('say hello'));
    assert.equal(stateOf(task), TaskState.TASK_STATE_COMPLETED);
    assert.deepEqual(textsOf(task), ['hello']);
    assert.equal(task.history.length, 2);
    const next = await say(words('say again', { contextId: task.contextId }));
    assert.notEqual(next.id, task.id);
    assert.deepEqual([next.contextId, textsOf(next)], [task.contextId, ['again']]);
    assert.deepEqual((await client.getTask({ tenant: '', id: task.id, historyLength: 0 })).history, []);
  });

  it('makes one task of a message that is sent twice', async () => {
    const request = words('say once');
    const [one, two] = [await say(request), await say(request)];
    assert.equal(one.id, two.id);
    assert.equal(api.model.asked('say once').length, 1);
  });

  it('shows a message in the history under the id that its sender gave it', async () => {
    const messageId = 'message-1';
    const { id, history, contextId } = await say(words('say hello', { messageId }));
    const [asked, answer] = history;
    assert.deepEqual([asked?.messageId, asked?.parts[0]?.content?.value], [messageId, 'say hello']);
    assert.notEqual(answer?.messageId, messageId);
    const { turns } = (await api.call('GET', `/v1/runs/${id}/turns`)).json;
    assert.equal(turns[0].input.message_id, messageId);
    const next = await say(words('say again', { messageId: 'message-2', contextId }));
    assert.equal(next.history[0]?.messageId, 'message-2');
  });

  it('takes messages of several tasks whose ids are the same, as of clients that count', async () => {
    const asked = [
      await say(words('call ask_user {"question":"Who?"} | say thanks')),
      await say(words('call ask_user {"question":"Which?"} | say thanks')),
    ];
    for (const { id: taskId } of asked) {
      const settled = await say(words('this', { taskId, messageId: '2' }));
      assert.deepEqual([settled.id, stateOf(settled)], [taskId, TaskState.TASK_STATE_COMPLETED]);
    }
  });

  it('asks for input, and takes it as a message of the same task', async () => {
    const task = await say(words('call ask_user {"question":"How much?"}'));
    assert.equal(stateOf(task), TaskState.TASK_STATE_INPUT_REQUIRED);
    assert.deepEqual(task.status?.message?.parts[0]?.content, { $case: 'text', value: 'How much?' });
    const done = await say(words('five', { taskId: task.id, contextId: task.contextId }));
    assert.equal(done.id, task.id);
    assert.equal(stateOf(done), TaskState.TASK_STATE_COMPLETED);
    assert.match(textsOf(done).join(), /five/);
    await assert.rejects(say(words('more', { taskId: task.id })), /completed/);
  });

  it('takes the answers to several questions one after the other, each to the one that is shown', async () => {
    const asking = 'call ask_user {"question":"Size?"} & ask_user {"question":"Color?"}';
    const task = await say(words(asking));
    const shown = (of: Task) => of.status?.message?.parts[0]?.content?.value;
    const first = shown(task);
    const request = words(`for ${String(first)}`, { taskId: task.id });
    const next = await say(request);
    assert.deepEqual(new Set([first, shown(next)]), new Set(['Color?', 'Size?']));
    // Sent again, it answers nothing else.
    assert.equal(shown(await say(request)), shown(next));
    const done = await say(words(`for ${String(shown(next))}`, { taskId: task.id }));
    assert.equal(stateOf(done), TaskState.TASK_STATE_COMPLETED);
    assert.match(textsOf(done).join(), /"for Size\?"}, {"message":"for Color\?"}/);
  });

  /** A task that waits for a person, and the policy that has it wait. */
  const waitForApproval = async () => {
    const body = { name: 'ask', priority: 1, when: 'tool == "calculator"', decision: 'require_approval' };
    const { json: made } = await api.call('POST', '/v1/policies', { body });
    const task = await say(words('call calculator {"expression":"1+1"} | say two'));
    const [, data] = task.status?.message?.parts ?? [];
    assert.ok(data?.content?.$case === 'data');
    const { approval_id } = data.content.value as { approval_id: string };
    return { policy: made.id as string, task, approval_id };
  };

  it('takes a decision as data, from a key that may approve', async () => {
    const { policy, task, approval_id } = await waitForApproval();
    const decision = { parts: [{ data: { approval_id, decision: 'approve' } }], taskId: task.id };
    const { json: weak } = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } });
    await assert.rejects((await connect(weak.key)).sendMessage(words('', decision)), /approvals:write/);
    const done = await say(words('', decision));
    assert.deepEqual(textsOf(done), ['two']);
    await api.call('DELETE', `/v1/policies/${policy}`);
  });

  it('streams a task to its end, after which nobody can join', async () => {
    const seen: StreamResponse[] = [];
    for await (const update of client.sendMessageStream(words('call calculator {"expression":"6*7"} | say 42'))) {
      seen.push(update);
    }
    const kinds = seen.map(({ payload }) => payload?.$case);
    assert.equal(kinds[0], 'task');
    assert.ok(kinds.includes('artifactUpdate'), kinds.join());
    const last = seen.at(-1)?.payload;
    assert.ok(last?.$case === 'statusUpdate' && last.value.status?.state === TaskState.TASK_STATE_COMPLETED);
    const { taskId: id } = last.value;
    await assert.rejects(async () => {
      for await (const update of client.resubscribeTask({ tenant: '', id })) void update;
    }, /has ended/);
    const body = { jsonrpc: '2.0', id: 1, method: 'SubscribeToTask', params: { id } };
    const { text } = await api.call('POST', `/a2a/${agent}`, { body, headers: { 'a2a-version': '1.0' } });
    assert.match(text, /^data: .*"error".*has ended/);
    assert.deepEqual(textsOf(await client.getTask({ tenant: '', id })), ['42']);
  });

  it('tells each step with its time, and no status as earlier than the one before it', async () => {
    const { id } = await say(
      words('held timed call calculator {"expression":"1+1"} | say two', {}, { returnImmediately: true }),
    );
    const told: { time: string; event: unknown }[] = [];
    for await (const { payload } of client.resubscribeTask({ tenant: '', id })) {
      if (told.length === 0) api.model.release('timed');
      if (payload?.$case !== 'task' && payload?.$case !== 'statusUpdate') continue;
      const { status, metadata } = payload.value;
      told.push({ time: status?.timestamp ?? '', event: metadata?.['event'] });
    }
    const times = told.map(({ time }) => time);
    assert.deepEqual(times, times.toSorted());
    const step = told.find(({ event }) => event === 'model.responded');
    assert.ok(step && step.time > (times[0] ?? '?'), JSON.stringify(told));
  });

  it('streams to whoever joins while it works, or waits, what is there and what comes', async () => {
    const { id } = await say(words('held joined say late', {}, { returnImmediately: true }));
    const seen: StreamResponse[] = [];
    for await (const update of client.resubscribeTask({ tenant: '', id })) {
      seen.push(update);
      if (seen.length === 1) api.model.release('joined');
    }
    const last = seen.at(-1)?.payload;
    assert.equal(seen[0]?.payload?.$case, 'task');
    assert.ok(last?.$case === 'statusUpdate' && last.value.status?.state === TaskState.TASK_STATE_COMPLETED);
    const { id: asking } = await say(words('call ask_user {"question":"Which?"}'));
    const shown: StreamResponse[] = [];
    for await (const update of client.resubscribeTask({ tenant: '', id: asking })) shown.push(update);
    const [whole] = shown;
    assert.ok(whole?.payload?.$case === 'task' && shown.length === 1);
    assert.equal(stateOf(whole.payload.value), TaskState.TASK_STATE_INPUT_REQUIRED);
  });

  it('ends the stream of a key that is revoked', async () => {
    const { id, key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } })).json;
    const seen: StreamResponse[] = [];
    const watching = (await connect(key)).sendMessageStream(words('hang say watched'));
    for await (const update of watching) {
      seen.push(update);
      if (seen.length === 1) await api.call('DELETE', `/v1/api-keys/${id}`);
    }
    const [first] = seen;
    assert.ok(first?.payload?.$case === 'task');
    const { json } = await api.call('GET', `/v1/runs/${first.payload.value.id}`);
    assert.equal(json.completed_at, null, 'the work goes on');
    await client.cancelTask({ tenant: '', id: json.run_id, metadata: undefined });
  });

  it('returns at once where it is asked to, and is cancelled', async () => {
    const task = await say(words('hang say never', {}, { returnImmediately: true }));
    assert.equal(stateOf(task), TaskState.TASK_STATE_WORKING);
    await waitUntil('the model is asked', () => api.model.asked('hang say never').length === 1);
    const cancelled = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
    assert.equal(stateOf(cancelled), TaskState.TASK_STATE_CANCELED);
    const again = await client.cancelTask({ tenant: '', id: task.id, metadata: undefined });
    assert.equal(stateOf(again), TaskState.TASK_STATE_CANCELED);
  });

  it('says of a task that has ended in another way that it cannot be cancelled', async () => {
    const { id } = await say(words('say done'));
    await assert.rejects(client.cancelTask({ tenant: '', id, metadata: undefined }), {
      name: 'TaskNotCancelableError',
    });
    await assert.rejects(client.cancelTask({ tenant: '', id: newId(), metadata: undefined }), {
      name: 'TaskNotFoundError',
    });
  });

  it('lists its tasks by pages, of a context or a state, and of nobody else', async () => {
    const first = await say(words('say one'));
    const second = await say(words('say two', { contextId: first.contextId }));
    const asking = await say(words('call ask_user {"question":"Which?"}'));
    const list = (params: Record<string, unknown>) => client.listTasks(ListTasksRequest.fromJSON(params));
    const of = await list({ contextId: first.contextId, pageSize: 1 });
    assert.deepEqual([of.tasks.map(({ id }) => id), of.totalSize], [[second.id], 2]);
    assert.deepEqual([of.tasks[0]?.history, of.tasks[0]?.artifacts], [[], []]);
    const params = { contextId: first.contextId, pageSize: 1, pageToken: of.nextPageToken, includeArtifacts: true };
    const rest = await list({ ...params, historyLength: 1 });
    assert.deepEqual([rest.tasks.map(({ id }) => id), rest.nextPageToken], [[first.id], '']);
    assert.ok(rest.tasks[0] && rest.tasks[0].history.length === 1 && textsOf(rest.tasks[0])[0] === 'one');
    const waiting = await list({ status: 'TASK_STATE_INPUT_REQUIRED', contextId: asking.contextId });
    assert.deepEqual(
      waiting.tasks.map(({ id }) => id),
      [asking.id],
    );
    assert.deepEqual((await list({ status: 'TASK_STATE_REJECTED' })).tasks, []);
    const later = new Date(Date.now() + 3_600_000).toISOString();
    assert.equal((await list({ statusTimestampAfter: later })).totalSize, 0);
    await assert.rejects(list({ pageToken: 'x' }), /pageToken/);
    await assert.rejects(list({ pageSize: 1000 }), /100/);
    await client.cancelTask({ tenant: '', id: asking.id, metadata: undefined });
  });

  it('lists those first that have changed last, and tells since when they are as they are', async () => {
    const asking = await say(words('call ask_user {"question":"Which?"}'));
    const { contextId } = asking;
    const between = await say(words('say between'));
    const list = (params: object = {}) =>
      client.listTasks(ListTasksRequest.fromJSON({ pageSize: 2, includeArtifacts: true, ...params }));
    const idsOf = ({ tasks }: { tasks: Task[] }) => tasks.map(({ id }) => id);
    assert.deepEqual(idsOf(await list()), [between.id, asking.id]);
    const answered = await say(words('this', { taskId: asking.id, contextId }));
    const first = await list();
    assert.deepEqual(idsOf(first), [asking.id, between.id]);
    const since = answered.status?.timestamp;
    assert.ok(since !== undefined && since > (asking.status?.timestamp ?? ''), since);
    assert.deepEqual(idsOf(await list({ statusTimestampAfter: since })), [asking.id]);
    // All of them once, page by page.
    const seen = idsOf(first);
    for (let pageToken = first.nextPageToken; pageToken !== '';) {
      const page = await list({ pageToken });
      seen.push(...idsOf(page));
      ({ nextPageToken: pageToken } = page);
    }
    assert.deepEqual([seen.length, new Set(seen).size], [first.totalSize, first.totalSize]);
  });

  it('shows tasks of an agent that was deprecated since, takes the answers that they wait for, and begins none', async () => {
    const before = agent;
    agent = await api.newAgent();
    const leaving = await connect(api.key);
    const message = { messageId: newId(), role: 'ROLE_USER', parts: [{ text: 'call ask_user {"question":"Go?"}' }] };
    const { task } = (await rpc('SendMessage', { message })).result;
    await api.call('DELETE', `/v1/agents/${agent}`);
    assert.equal(stateOf(await leaving.getTask({ tenant: '', id: task.id })), TaskState.TASK_STATE_INPUT_REQUIRED);
    assert.equal((await leaving.listTasks(ListTasksRequest.fromJSON({}))).totalSize, 1);
    const { error } = await rpc('SendMessage', { message: { ...message, messageId: newId() } });
    assert.deepEqual([error.code, /deprecated/.test(error.message)], [-32004, true]);
    const yes = { ...message, messageId: newId(), taskId: task.id, parts: [{ text: 'yes' }] };
    assert.equal((await rpc('SendMessage', { message: yes })).result.task.status.state, 'TASK_STATE_COMPLETED');
    assert.equal((await api.call('GET', `/a2a/${agent}/.well-known/agent-card.json`)).status, 404);
    agent = before;
  });

  it('refuses in words of the protocol what it does not do', async () => {
    await assert.rejects(client.getTask({ tenant: '', id: newId() }), /not|no/i);
    await assert.rejects(client.getTask({ tenant: '', id: 'x' }), /no task "x"/);
    await assert.rejects(say(words('   ')), /empty/);
    await assert.rejects(say(words('x', { parts: [{ url: 'http://x/y.png' }] })), /takes text/);
    const body = { jsonrpc: '2.0', id: 1, method: 'GetTask', params: { id: newId() } };
    const { json } = await api.call('POST', `/a2a/${agent}`, { body });
    assert.match(json.error.message, /version '0.3' is not supported/);
  });

  it('decides by a message to the task that waits alone, and not by one to another agent or task', async () => {
    const { policy, task, approval_id } = await waitForApproval();
    const parts = [{ data: { approval_id, decision: 'deny' } }];
    const message = { messageId: newId(), role: 'ROLE_USER', parts };
    const other = await api.newAgent();
    const refused = [
      await rpc('SendMessage', { message }, { path: `/a2a/${other}` }),
      await rpc('SendMessage', { message: { ...message, taskId: newId() } }),
      await rpc('SendMessage', { message: { ...message, contextId: newId() } }),
    ];
    assert.deepEqual(
      refused.map(({ error }) => error.code),
      [-32001, -32001, -32602],
    );
    const { json } = await api.call('GET', `/v1/approvals/${approval_id}`);
    assert.equal(json.status, 'pending');
    assert.deepEqual(textsOf(await say(words('', { parts, taskId: task.id, contextId: task.contextId }))), ['two']);
    await api.call('DELETE', `/v1/policies/${policy}`);
  });

  it('refuses a message whose context is not that of its task', async () => {
    const task = await say(words('call ask_user {"question":"Which?"}'));
    const { contextId } = await say(words('say other'));
    await assert.rejects(say(words('this', { taskId: task.id, contextId })), /context/);
    assert.equal(stateOf(await client.getTask({ tenant: '', id: task.id })), TaskState.TASK_STATE_INPUT_REQUIRED);
  });

  it('refuses what has another form than the protocol gives it, before anything happens', async () => {
    const message = { messageId: newId(), role: 'ROLE_USER', parts: [{ text: 'say odd' }] };
    for (const [method, params] of [
      ['SendMessage', { message: { ...message, parts: [null] } }],
      ['SendMessage', { message: { ...message, parts: 'x' } }],
      ['SendMessage', { message: { ...message, parts: [{ text: { a: 1 } }] } }],
      ['SendMessage', { message: { ...message, parts: [{ text: 'say odd', url: 'http://x' }] } }],
      ['SendMessage', { message: { ...message, parts: [{ text: 'say odd', data: {} }] } }],
      ['SendMessage', { message: { ...message, parts: [{ text: 'say odd' }, {}] } }],
      ['SendMessage', { message: { ...message, messageId: 5 } }],
      ...OTHER_ROLES.map((role) => ['SendMessage', { message: { ...message, role } }] as const),
      ['SendMessage', { message: { ...message, metadata: 'x' } }],
      ['SendMessage', { message: { ...message, metadata: [] } }],
      ['SendMessage', { message: { ...message, referenceTaskIds: 'x' } }],
      ['SendMessage', { message: { ...message, extensions: [5] } }],
      ['SendMessage', { message: { ...message, parts: [{ text: 'say odd', metadata: 'x' }] } }],
      ['SendMessage', { message, metadata: 'x' }],
      ['SendMessage', { message, configuration: { acceptedOutputModes: 'x' } }],
      ['SendMessage', { message, configuration: { accepted_output_modes: [null] } }],
      ['SendMessage', { message: 'x' }],
      ['SendMessage', { message, configuration: { historyLength: -1 } }],
      ['SendMessage', { message, configuration: { history_length: 'many' } }],
      ['SendMessage', { message, configuration: { returnImmediately: 'false' } }],
      ['SendMessage', { message, configuration: 'x' }],
      ['SendMessage', { message, configuration: { taskPushNotificationConfig: { url: {} } } }],
      ['SendStreamingMessage', { message: { ...message, parts: [null] } }],
      ['GetTask', { id: {} }],
      ['GetTask', { id: newId(), historyLength: -1 }],
      ['ListTasks', { historyLength: -1 }],
      ['ListTasks', { status: 'TASK_STATE_RUNNING' }],
    ] as const) {
      const { error } = await rpc(method, params);
      assert.equal(error.code, -32602, JSON.stringify(params));
    }
    assert.equal(api.model.asked('say odd').length, 0);
  });

  it('takes the number of the role, as protocol buffers have it, and fields that it does not know', async () => {
    const message = { messageId: newId(), role: 1, parts: [{ text: 'say hi', kind: 'text' }], later: 'x' };
    const { result } = await rpc('SendMessage', { message, configuration: { blocking: false }, later: {} });
    assert.equal(result.task.status.state, 'TASK_STATE_COMPLETED');
  });

  it('answers a notification with nothing, and does nothing', async () => {
    const message = { messageId: newId(), role: 'ROLE_USER', parts: [{ text: 'say notified' }] };
    const send = (more: object) => {
      const body = { jsonrpc: '2.0', method: 'SendMessage', params: { message }, ...more };
      return api.call('POST', `/a2a/${agent}`, { body, headers: { 'a2a-version': '1.0' } });
    };
    const { status, text } = await send({});
    assert.deepEqual([status, text], [202, '']);
    assert.equal((await send({ method: 'GetTask', params: {} })).text, '');
    assert.equal(api.model.asked('say notified').length, 0);
    const { json } = await send({ id: 1 });
    assert.deepEqual([json.id, json.result.task.status.state], [1, 'TASK_STATE_COMPLETED']);
  });

  it('refuses parts that are no text with the error for types of content', async () => {
    for (const part of [{ url: 'https://example.com/x.png' }, { raw: 'aGk=' }, { data: { a: 1 } }]) {
      const message = { messageId: newId(), role: 'ROLE_USER', parts: [{ text: 'look' }, part] };
      assert.equal((await rpc('SendMessage', { message })).error.code, -32005);
    }
  });

  it('speaks 1.0 to whoever names it in the query, or with a patch version', async () => {
    const params = { message: { messageId: newId(), role: 'ROLE_USER', parts: [{ text: 'say hi' }] } };
    const path = `/a2a/${agent}?A2A-Version=1.0`;
    const asked = await rpc('SendMessage', params, { path, version: '' });
    assert.equal(
      (await rpc('GetTask', { id: asked.result.task.id }, { version: '1.0.3' })).result.id,
      asked.result.task.id,
    );
    assert.equal((await rpc('GetTask', { id: newId() }, { path, version: '2.0' })).error.code, -32009);
  });

  it('has no extended card, and says so', async () => {
    assert.equal((await rpc('GetExtendedAgentCard', undefined)).error.code, -32004);
  });

  it('says that a message id was used before, in words of the protocol', async () => {
    const messageId = newId();
    await say(words('say one', { messageId }));
    await assert.rejects(say(words('say other', { messageId })), /messageId/);
  });

  it('tells the faults of what is no message with the codes of JSON-RPC, in a problem', async () => {
    for (const path of [`/a2a/${agent}`, '/mcp']) {
      const broken = await api.call('POST', path, { raw: '{bad' });
      const { jsonrpc, id, error, status, code } = broken.json;
      assert.deepEqual([broken.status, jsonrpc, id, error.code], [400, '2.0', null, -32700], path);
      assert.deepEqual([status, code], [400, 'bad-request']);
      const other = await api.call('POST', path, { body: { id: 1 } });
      assert.deepEqual([other.status, other.json.error.code], [400, -32600], path);
      for (const odd of [{}, [], true, 1.5]) {
        const headers = { accept: 'application/json, text/event-stream' };
        const body = { jsonrpc: '2.0', id: odd, method: 'ping', params: {} };
        const { json } = await api.call('POST', path, { headers, body });
        assert.deepEqual([json.jsonrpc, json.id, json.error?.code], ['2.0', null, -32600], JSON.stringify(odd));
      }
    }
  });

  it('answers JSON that is not taken under the id of its request, where that is one', async () => {
    const deep = `${'['.repeat(300)}${']'.repeat(300)}`;
    const refused: [string, string, number | null, number][] = [
      ['7', '{"metadata":{"n":9007199254740993}}', 7, -32602],
      ['9007199254740993', '{}', null, -32600],
      ['9007199254740993', '{"n":9007199254740993}', null, -32600],
      ['7', `{"n":${deep}}`, 7, -32600],
      ['7', '{"n":1e999}', 7, -32600],
    ];
    for (const path of [`/a2a/${agent}`, '/mcp']) {
      for (const [id, params, answered, code] of refused) {
        const raw = `{"jsonrpc":"2.0","method":"ping","params":${params},"id":${id}}`;
        const { status, json } = await api.call('POST', path, { raw });
        assert.deepEqual([status, json.id, json.error.code], [400, answered, code], raw.slice(0, 100));
      }
      const batch = '[{"jsonrpc":"2.0","method":"ping","params":{"n":9007199254740993},"id":1}]';
      const { json } = await api.call('POST', path, { raw: batch });
      assert.deepEqual([json.id, json.error.code], [null, -32600], path);
    }
  });

  it('shows a key that may not read runs those tasks alone that it has asked for', async () => {
    const { key } = (
      await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write', 'agents:read'] } })
    ).json;
    const writer = await connect(key);
    const theirs = await writer.sendMessage(words('say theirs'));
    assert.ok('history' in theirs);
    assert.deepEqual(textsOf(await writer.getTask({ tenant: '', id: theirs.id })), ['theirs']);
    const { id } = await say(words('say secret'));
    const unseen = /not exist/;
    await assert.rejects(writer.getTask({ tenant: '', id }), unseen);
    await assert.rejects(writer.cancelTask({ tenant: '', id, metadata: undefined }), unseen);
    await assert.rejects(writer.sendMessage(words('say more', { taskId: id })), unseen);
    await assert.rejects(
      writer.listTaskPushNotificationConfig({ tenant: '', taskId: id, pageSize: 0, pageToken: '' }),
      unseen,
    );
    await assert.rejects(async () => {
      for await (const update of writer.resubscribeTask({ tenant: '', id })) void update;
    }, unseen);
    await assert.rejects(writer.listTasks(ListTasksRequest.fromJSON({})), /runs:read/);
  });
});
