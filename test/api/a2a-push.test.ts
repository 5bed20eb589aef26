/** Push notifications of A2A, asked for by the official client and read as its server's messages are. */
import assert from 'node:assert/strict';
import { SendMessageRequest, StreamResponse, TaskState, type Task } from '@a2a-js/sdk';
import {
  ClientFactory,
  ClientFactoryOptions,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
} from '@a2a-js/sdk/client';
import { LIMITS } from '../../core/limits.ts';
import { newId } from '../../lib/new-id.ts';
import { forgetOldRows } from '../../modules/platform/forget-old.ts';
import { DEFAULT_TENANT_ID } from '../../modules/tenants/bootstrap.ts';
import { openKeyring } from '../../modules/tenants/open-keyring.ts';
import { reencryptSecrets } from '../../modules/tenants/reencrypt-secrets.ts';
import { PUSH_TOKENS } from '../../modules/webhooks/push-configs.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { ageEnd } from '../support/queries/runs.ts';
import { countPushConfigsOf } from '../support/queries/webhooks.ts';

type A2aClient = Awaited<ReturnType<ClientFactory['createFromUrl']>>;

describe('push notifications over A2A', () => {
  let api: ScriptedService;
  let receiver: LocalServer;
  let agent: string;
  let client: A2aClient;

  before(async () => {
    receiver = await startServer((_request, response) => void response.writeHead(200).end());
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
    agent = await api.newAgent();
    const fetchImpl: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      headers.set('authorization', `Bearer ${api.key}`);
      return fetch(input, { ...init, headers });
    };
    const options = ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
      transports: [new JsonRpcTransportFactory({ fetchImpl })],
      cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
    });
    client = await new ClientFactory(options).createFromUrl(`${api.url}/a2a/${agent}/`, '.well-known/agent-card.json');
  });
  after(async () => {
    await api.close();
    await receiver.close();
  });
  beforeEach(() => void (receiver.seen.length = 0));

  const say = async (text: string, configuration: object = {}, more: object = {}): Promise<Task> => {
    const message = { messageId: newId(), role: 'ROLE_USER', parts: [{ text }], ...more };
    const sent = await client.sendMessage(SendMessageRequest.fromJSON({ message, configuration }));
    assert.ok('history' in sent);
    return sent;
  };
  const isUnended = (run: { status: string }) => run.status !== 'completed' && run.status !== 'awaiting_human';
  const ask = 'call ask_user {"question": "Which?"}';
  /** The states that were told, in their order in the log. */
  const told = (taskId: string) =>
    receiver.seen
      .map(({ body }) => StreamResponse.fromJSON(JSON.parse(body)).payload)
      .flatMap((payload) =>
        payload?.$case === 'statusUpdate' && payload.value.taskId === taskId ? [payload.value] : [],
      )
      .toSorted((a, b) => Number(a.metadata?.['seq']) - Number(b.metadata?.['seq']))
      .map(({ status }) => status?.state);
  const config = (taskId: string, more: object = {}) => ({
    tenant: '',
    id: '',
    taskId,
    url: `${receiver.url}/told`,
    token: '',
    authentication: undefined,
    ...more,
  });

  it('tell of input that is required, of the work that goes on, and of the end, with the credentials', async () => {
    const push = { url: `${receiver.url}/told`, token: 'of-the-client' };
    const task = await say(ask, { taskPushNotificationConfig: push });
    await waitUntil('the question is told', () => told(task.id).includes(TaskState.TASK_STATE_INPUT_REQUIRED));
    const first = receiver.seen[0];
    assert.equal(first?.headers['x-a2a-notification-token'], 'of-the-client');
    assert.equal(first?.headers['content-type'], 'application/a2a+json');
    assert.doesNotMatch(receiver.seen.map(({ body }) => body).join(''), /Which/, 'no content is told');
    await say('the blue one', {}, { taskId: task.id });
    await waitUntil('the end is told', () => told(task.id).includes(TaskState.TASK_STATE_COMPLETED));
    await waitUntil('the work is told', () => told(task.id).includes(TaskState.TASK_STATE_WORKING));
    assert.equal(told(task.id).at(-1), TaskState.TASK_STATE_COMPLETED);
  });

  it('tell at once of a task that has ended, and of no other one', async () => {
    const done = await say('hello');
    await say('hello');
    const authentication = { scheme: 'Bearer', credentials: 'secret-of-the-client' };
    const made = await client.createTaskPushNotificationConfig(config(done.id, { authentication }));
    await waitUntil('the end is told', () => told(done.id).length > 0);
    assert.deepEqual(told(done.id), [TaskState.TASK_STATE_COMPLETED]);
    assert.equal(receiver.seen[0]?.headers['authorization'], 'Bearer secret-of-the-client');
    assert.equal(receiver.seen.length, 1);
    assert.doesNotMatch(JSON.stringify(made), /secret-of/);
  });

  it('carry what they carried once their key was changed, and the old one taken away', async () => {
    const { config: settings, db, keyring } = api.context;
    const task = await say(ask, { taskPushNotificationConfig: { url: `${receiver.url}/told`, token: 'kept' } });
    await waitUntil('the question is told', () => told(task.id).includes(TaskState.TASK_STATE_INPUT_REQUIRED));
    const next = await openKeyring({ ...settings, secretKeys: ['the next key', ...settings.secretKeys] });
    const { unreadable } = await reencryptSecrets({ db, keyring: next }, { besides: [PUSH_TOKENS] });
    assert.deepEqual(unreadable, []);
    const page = { keyId: next.currentKeyId(), after: undefined, limit: 10 };
    assert.deepEqual(await db.withTenant(DEFAULT_TENANT_ID, (tx) => PUSH_TOKENS.list(tx, page)), []);
    const back = await openKeyring({ ...settings, secretKeys: [...settings.secretKeys, 'the next key'] });
    assert.equal(back.currentKeyId(), keyring.currentKeyId());
    await reencryptSecrets({ db, keyring: back }, { besides: [PUSH_TOKENS] });
    await say('the blue one', {}, { taskId: task.id });
    await waitUntil('the end is told', () => told(task.id).includes(TaskState.TASK_STATE_COMPLETED));
    assert.equal(receiver.seen.at(-1)?.headers['x-a2a-notification-token'], 'kept');
  });

  it('are listed, shown without credentials, changed under their name and deleted', async () => {
    const { id: taskId } = await say(ask);
    const named = config(taskId, { id: 'mine', token: 'hidden' });
    await client.createTaskPushNotificationConfig(named);
    await client.createTaskPushNotificationConfig({ ...named, url: `${receiver.url}/other` });
    const found = await client.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' });
    assert.deepEqual([found.url, found.token], [`${receiver.url}/other`, '']);
    const { configs } = await client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize: 0, pageToken: '' });
    assert.deepEqual(
      configs.map(({ id }) => id),
      ['mine'],
    );
    const { json } = await api.call('GET', '/v1/webhooks');
    assert.deepEqual(json.webhooks, [], 'they are no webhooks of the tenant');
    await client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' });
    await assert.rejects(client.getTaskPushNotificationConfig({ tenant: '', taskId, id: 'mine' }), /not|no/i);
    const { json: audit } = await api.call('GET', `/v1/audit?target=${taskId}`);
    assert.doesNotMatch(JSON.stringify(audit), /hidden/);
  });

  it('are listed page by page, oldest first', async () => {
    const { id: taskId } = await say(ask);
    const names = ['c', 'b', 'a'];
    for (const id of names) await client.createTaskPushNotificationConfig(config(taskId, { id }));
    const list = (pageSize: number, pageToken = '') =>
      client.listTaskPushNotificationConfig({ tenant: '', taskId, pageSize, pageToken });
    const first = await list(2);
    const second = await list(2, first.nextPageToken);
    const listed = [first, second].map(({ configs }) => configs.map(({ id }) => id));
    assert.deepEqual([listed, second.nextPageToken], [[['c', 'b'], ['a']], '']);
    const whole = await list(0);
    assert.deepEqual([whole.configs.map(({ id }) => id), whole.nextPageToken], [names, '']);
    await assert.rejects(list(1, 'x'), /pageToken/);
    await assert.rejects(list(-1), /page/);
  });

  it('are refused for foreign tasks, odd addresses and tokens, and beyond the limit', async () => {
    await assert.rejects(client.createTaskPushNotificationConfig(config(newId())), /not|no/i);
    const { id } = await say(ask);
    await assert.rejects(client.createTaskPushNotificationConfig(config(id, { url: 'file:///etc/passwd' })), /url/);
    await assert.rejects(client.createTaskPushNotificationConfig(config(id, { token: 'a\r\nb: c' })), /token/);
    const withPassword = config(id, { url: 'https://me:secret@example.com/' });
    await assert.rejects(client.createTaskPushNotificationConfig(withPassword), /password/);
    for (let n = 0; n < LIMITS.pushConfigsPerTask; n += 1) await client.createTaskPushNotificationConfig(config(id));
    await assert.rejects(client.createTaskPushNotificationConfig(config(id)), /at most 10/);
  });

  it('let nothing begin where they are wrong in a message', async () => {
    await assert.rejects(say('say begun', { taskPushNotificationConfig: { url: 'nonsense' } }), /url/);
    assert.equal(api.model.asked('say begun').length, 0);
    assert.equal((await api.call('GET', `/v1/runs?agent=${agent}`)).json.runs.some(isUnended), false);
  });

  it('are forgotten a day after the end of their task', async () => {
    const { id } = await say('hello');
    await client.createTaskPushNotificationConfig(config(id));
    await waitUntil('the end is told', () => told(id).length > 0);
    assert.equal(await countPushConfigsOf(api.context.db, id), 1);
    await ageEnd(api.context.db, id, LIMITS.pushConfigHours + 1);
    await waitUntil('nothing is left to be told', async () => {
      await forgetOldRows(api.context);
      return (await countPushConfigsOf(api.context.db, id)) === 0;
    });
  });
});
