/** Agents over ACP, used by the official client. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import {
  methods,
  type NewSessionResponse,
  type PromptResponse,
  type RequestPermissionRequest,
  type SessionNotification,
  type SessionUpdate,
  type ToolCall,
} from '@agentclientprotocol/sdk';
import { WebSocket } from 'ws';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { openAcp, type AcpClient, type AcpOptions } from '../support/wire/acp.ts';

const NO_SERVERS = { cwd: '/', mcpServers: [] };

describe('an agent over ACP', function () {
  let api: ScriptedService;
  let agent: string;
  const clients: AcpClient[] = [];

  before(async () => {
    api = await startScriptedService();
    agent = await api.newAgent();
  });
  afterEach(() => {
    for (const client of clients.splice(0)) client.leave();
  });
  after(() => api.close());

  interface Opened extends AcpClient {
    updates: SessionUpdate[];
    seqs: number[];
    newSession: () => Promise<string>;
    load: (sessionId: string, after?: number) => Promise<unknown>;
    prompt: (sessionId: string, text: string, id?: string) => Promise<PromptResponse>;
    text: () => string;
  }
  async function open(of = agent, more: Partial<AcpOptions> = {}): Promise<Opened> {
    const updates: SessionUpdate[] = [];
    const seqs: number[] = [];
    const onUpdate = ({ update, _meta }: SessionNotification) => {
      updates.push(update);
      const { seq } = (_meta?.['drover'] ?? {}) as { seq?: number };
      if (seq !== undefined) seqs.push(seq);
    };
    const client = await openAcp({ url: api.url, key: api.key, agent: of, onUpdate, ...more });
    clients.push(client);
    const { session } = methods.agent;
    return {
      ...client,
      updates,
      seqs,
      newSession: async () => (await client.agent.request<NewSessionResponse>(session.new, NO_SERVERS)).sessionId,
      load: (sessionId, after) => {
        const meta = after !== undefined && { _meta: { drover: { after } } };
        return client.agent.request(session.load, { ...NO_SERVERS, sessionId, ...meta });
      },
      prompt: (sessionId, text, id) => {
        const meta = id !== undefined && { _meta: { drover: { id } } };
        return client.agent.request(session.prompt, { sessionId, prompt: [{ type: 'text', text }], ...meta });
      },
      text: () => updates.flatMap((update) => textOf(update, 'agent_message_chunk')).join(''),
    };
  }
  const textOf = (update: SessionUpdate, kind: string): string[] => {
    if (update.sessionUpdate !== kind || !('messageId' in update)) return [];
    const { content } = update as { content: { text?: string } };
    return content.text === undefined ? [] : [content.text];
  };
  const choose = (optionId: string) => ({ outcome: { outcome: 'selected' as const, optionId } });
  const kinds = ({ updates }: Opened) => updates.map(({ sessionUpdate }) => sessionUpdate);
  /** Its calls as the last update of each leaves them: one that was seen while the model wrote it has had more of them. */
  const callsOf = ({ updates }: Opened) => {
    const calls = new Map<string, Partial<ToolCall>>();
    for (const each of updates) {
      if (each.sessionUpdate !== 'tool_call' && each.sessionUpdate !== 'tool_call_update') continue;
      const { sessionUpdate: _, _meta, ...call } = each;
      calls.set(call.toolCallId, { ...calls.get(call.toolCallId), ...(call as Partial<ToolCall>) });
    }
    return [...calls.values()];
  };

  it('shows a key that may not read runs those sessions alone on which it has said something', async () => {
    const scopes = ['runs:write'];
    const { key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes } })).json;
    const writer = await open(agent, { key });
    const theirs = await writer.newSession();
    await writer.load(theirs);
    await writer.prompt(theirs, 'say theirs');
    const again = await open(agent, { key });
    await again.load(theirs);
    assert.equal(again.text(), 'theirs');
    const client = await open();
    const mine = await client.newSession();
    await client.prompt(mine, 'say secret');
    await assert.rejects(again.load(mine), /not exist/);
    const { session } = methods.agent;
    await assert.rejects(again.agent.request(session.resume, { ...NO_SERVERS, sessionId: mine }), /not exist/);
    await assert.rejects(again.agent.request(session.list, {}), /runs:read/);
    assert.equal(again.text(), 'theirs');
  });

  it('shows a turn in updates, and ends its prompt with it', async () => {
    const client = await open();
    const id = await client.newSession();
    const { stopReason } = await client.prompt(id, 'call calculator {"expression":"6*7"} | say It is 42.');
    assert.equal(stopReason, 'end_turn');
    assert.equal(client.text(), 'It is 42.');
    assert.equal(client.updates[0]?.sessionUpdate, 'session_info_update');
    const [call, ...others] = callsOf(client);
    assert.deepEqual([call?.title, call?.rawInput, call?.status], ['calculator', { expression: '6*7' }, 'completed']);
    assert.deepEqual(others, []);
    assert.deepEqual(
      client.seqs,
      client.seqs.toSorted((left, right) => left - right),
    );
    const { json } = await api.call('GET', `/v1/threads/${id}`);
    assert.deepEqual([json.id, json.total_runs], [id, 1]);
    await client.prompt(id, 'say again');
    assert.equal((await api.call('GET', `/v1/threads/${id}`)).json.total_runs, 1, 'the run stays open');
    assert.equal(api.model.asked('say again')[0]?.messages.length, 5);
    await client.prompt(id, 'say a\u0000b');
    const { events } = (await api.call('GET', `/v1/runs/${json.last_run_id}/events?types=turn.started`)).json;
    assert.deepEqual(events.at(-1).payload.input, { message: 'say a\uFFFDb', replaced: 1 }, 'it is noted');
  });

  it('shows a call as pending until it begins, and while somebody is asked', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const sleeping = await api.newAgent(['sleep']);
    const statusesOf = async (of: string, call: string) => {
      const client = await open(of, { onPermission: async () => choose('approve') });
      await client.prompt(await client.newSession(), `call ${call} | say done`);
      const statuses = client.updates.flatMap((update) => ('status' in update ? [update.status] : []));
      return statuses.filter((status, at) => status !== statuses[at - 1]);
    };
    const sum = 'calculator {"expression":"6*7"}';
    assert.deepEqual(await statusesOf(careful, sum), ['pending', 'in_progress', 'completed']);
    assert.deepEqual(await statusesOf(sleeping, 'sleep {"seconds":0.1}'), ['pending', 'in_progress', 'completed']);
    assert.deepEqual(await statusesOf(agent, sum), ['pending', 'completed'], 'the log has it with its result');
  });

  it('replays a session to whoever loads it, or what came after a place', async () => {
    const first = await open();
    const id = await first.newSession();
    await first.prompt(id, 'call calculator {"expression":"1+1"} | say one');
    const middle = first.seqs.at(-1);
    await first.prompt(id, 'say two');
    const all = await open();
    await all.load(id);
    assert.deepEqual(
      all.updates.flatMap((update) => textOf(update, 'user_message_chunk')),
      ['call calculator {"expression":"1+1"} | say one', 'say two'],
    );
    assert.equal(all.text(), 'onetwo');
    const rest = await open();
    await rest.load(id, middle);
    assert.deepEqual([rest.text(), kinds(rest)[0]], ['two', 'user_message_chunk']);
    const none = await open();
    await none.load(id, all.seqs.at(-1));
    assert.deepEqual(none.updates, []);
  });

  it('goes on with a session without telling what was, and lists the sessions of the agent', async () => {
    const alone = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const first = await open(alone, { onPermission: () => new Promise(() => undefined) });
    const id = await first.newSession();
    void first.prompt(id, 'call calculator {"expression":"6*7"} | say resumed').catch(() => undefined);
    await waitUntil('it asks', async () =>
      (await api.call('GET', '/v1/approvals?status=pending')).json.approvals.some(
        ({ tool }: { tool: string }) => tool === 'calculator',
      ),
    );
    const again = await open(alone, { onPermission: async () => choose('approve') });
    await again.agent.request(methods.agent.session.resume, { ...NO_SERVERS, sessionId: id });
    await waitUntil('it goes on', () => again.text() === 'resumed');
    assert.ok(!kinds(again).includes('user_message_chunk') && !kinds(again).includes('tool_call'));
    const other = await again.newSession();
    const { sessions } = await again.agent.request<{ sessions: { sessionId: string }[] }>(
      methods.agent.session.list,
      {},
    );
    assert.deepEqual(
      sessions.map(({ sessionId }) => sessionId),
      [other, id],
    );
  });

  it('asks for permission, once or not at all, and never for always', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const asked: RequestPermissionRequest[] = [];
    const onPermission: AcpOptions['onPermission'] = async (request) => {
      asked.push(request);
      return choose(asked.length === 1 ? 'approve' : 'deny');
    };
    const client = await open(careful, { onPermission });
    const id = await client.newSession();
    await client.prompt(id, 'call calculator {"expression":"6*7"} & calculator {"expression":"1+1"}');
    assert.deepEqual(
      asked[0]?.options.map(({ kind }) => kind),
      ['allow_once', 'reject_once'],
    );
    assert.equal(asked[0]?.toolCall.title, 'calculator');
    assert.match(client.text(), /done: .*42.*, .*/);
    const statuses = new Map<string, string>();
    for (const update of client.updates)
      if ('toolCallId' in update) statuses.set(update.toolCallId, update.status ?? '');
    assert.deepEqual(
      [...statuses.values()].toSorted((left, right) => left.localeCompare(right)),
      ['completed', 'failed'],
    );
  });

  it('says that its key may not decide on what it has asked for, and waits for somebody else', async () => {
    const four = { autonomy_level: 0, execution_config: { four_eyes: true } };
    const careful = await api.newAgent(['calculator'], four);
    const client = await open(careful, { onPermission: async () => choose('approve') });
    const prompted = client.prompt(await client.newSession(), 'call calculator {"expression":"6*7"} | say done');
    await assert.rejects(prompted, /four eyes/i);
    const { approvals } = (await api.call('GET', '/v1/approvals?status=pending')).json;
    const { key } = (await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['approvals:write'] } })).json;
    await api.call('POST', `/v1/approvals/${approvals[0].id}`, { key, body: { decision: 'approve' } });
    await waitUntil('it goes on', () => client.text() === 'done');
  });

  it('takes an option that was not offered for a rejection, and no answer for none', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const client = await open(careful, { onPermission: async () => choose('allow_always') });
    await client.prompt(await client.newSession(), 'call calculator {"expression":"6*7"} | say so be it');
    assert.equal(client.text(), 'so be it');
    const { approvals } = (await api.call('GET', '/v1/approvals?status=denied')).json;
    assert.equal(approvals[0].reason, 'The client has chosen an option that it was not offered.');
  });

  it('asks once for a plan, and again on another connection where nobody has answered', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    let seen: RequestPermissionRequest | undefined;
    const first = await open(careful, {
      onPermission: (request) => {
        seen = request;
        return new Promise(() => undefined);
      },
    });
    const id = await first.newSession();
    const calls = ['1', '2', '3'].map((n) => `calculator {"expression":"${n}"}`).join(' & ');
    const cut = first.prompt(id, `call ${calls} | say planned`).catch((error: Error) => error);
    await waitUntil('it asks', () => seen !== undefined);
    assert.match(seen?.toolCall.title ?? '', /^Plan of 3 calls/);
    first.leave();
    assert.ok((await cut) instanceof Error);
    const again = await open(careful, { onPermission: async () => choose('approve') });
    await again.load(id);
    await waitUntil('it goes on', () => again.text() === 'planned');
  });

  it('takes the permission back that somebody else has decided', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    let asks = 0;
    const client = await open(careful, {
      onPermission: () => {
        asks += 1;
        return new Promise(() => undefined);
      },
    });
    const id = await client.newSession();
    const answered = client.prompt(id, 'call calculator {"expression":"6*7"} | say elsewhere');
    await waitUntil('it asks', () => asks === 1);
    const { json } = await api.call('GET', '/v1/approvals?status=pending');
    await api.call('POST', `/v1/approvals/${json.approvals[0].id}`, { body: { decision: 'approve' } });
    assert.equal((await answered).stopReason, 'end_turn');
    assert.equal(client.text(), 'elsewhere');
  });

  it('asks a question in a form, or as a message that the next prompt answers', async () => {
    const question = 'call ask_user {"question":"How much?"}';
    const formed = await open(agent, {
      onQuestion: async ({ message }) => ({ action: 'accept', content: { answer: `ten, since ${message}` } }),
    });
    await formed.prompt(await formed.newSession(), question);
    assert.match(formed.text(), /ten, since How much\?/);
    const plain = await open();
    const id = await plain.newSession();
    const { stopReason, _meta } = await plain.prompt(id, question);
    assert.deepEqual(
      [stopReason, (_meta as { drover: { status: string } }).drover.status],
      ['end_turn', 'awaiting_human'],
    );
    assert.equal(plain.text(), 'How much?');
    await plain.prompt(id, 'eleven');
    assert.match(plain.text(), /done: .*eleven/);
  });

  it('is cancelled at once, and goes on with the next prompt', async () => {
    const client = await open();
    const id = await client.newSession();
    const hanging = client.prompt(id, 'hang say never cancelled');
    await waitUntil('the model is asked', () => api.model.asked('hang say never cancelled').length === 1);
    await client.agent.notify(methods.agent.session.cancel, { sessionId: id });
    assert.equal((await hanging).stopReason, 'cancelled');
    assert.equal((await client.prompt(id, 'say back')).stopReason, 'end_turn');
  });

  const meanwhile = (client: Opened, sessionId: string, { text, mode }: { text: string; mode: string }) =>
    client.agent.request<PromptResponse>(methods.agent.session.prompt, {
      sessionId,
      prompt: [{ type: 'text', text }],
      _meta: { drover: { mode } },
    });

  it('queues a prompt that comes while another is at work, or has the turn at work read it', async () => {
    const client = await open();
    const id = await client.newSession();
    const first = client.prompt(
      id,
      'held steered call calculator {"expression":"6*7"} | call calculator {"expression":"1"} | say not told',
    );
    await waitUntil('the model is asked', () => api.model.asked('not told').length === 1);
    const steered = meanwhile(client, id, { text: 'held read say read at once', mode: 'steer' });
    const waits = (count: number) =>
      waitUntil('it waits', () => JSON.stringify(client.updates).split('"waiting"').length === count + 1);
    await waits(1);
    api.model.release('steered');
    await waitUntil('it is read', () => api.model.asked('read at once').length === 1);
    const queued = meanwhile(client, id, { text: 'say in its turn', mode: 'queue' });
    await waits(2);
    api.model.release('read');
    const turns = (await Promise.all([first, steered, queued])).map(({ stopReason, _meta }) => {
      return [stopReason, (_meta as { drover: { turn_id: string } }).drover.turn_id];
    });
    assert.deepEqual(
      turns.map(([reason]) => reason),
      Array(3).fill('end_turn'),
    );
    assert.equal(turns[0]?.[1], turns[1]?.[1]);
    assert.notEqual(turns[1]?.[1], turns[2]?.[1]);
    assert.equal(client.text(), 'read at oncein its turn');
    const said = (of: Opened) => of.updates.flatMap((update) => textOf(update, 'user_message_chunk'));
    assert.deepEqual(said(client), ['held read say read at once']);
    const again = await open();
    await again.load(id);
    assert.deepEqual(said(again).slice(1), ['held read say read at once', 'say in its turn']);
  });

  it('ends a prompt as cancelled whose place a newer one has taken', async () => {
    const client = await open();
    const id = await client.newSession();
    const first = client.prompt(id, 'held holds say holds the place');
    await waitUntil('the model is asked', () => api.model.asked('holds the place').length === 1);
    const early = meanwhile(client, id, { text: 'say early', mode: 'queue' });
    await waitUntil('it waits', () => JSON.stringify(client.updates).includes('"waiting"'));
    const late = meanwhile(client, id, { text: 'say late', mode: 'queue' });
    const { stopReason, _meta } = await early;
    api.model.release('holds');
    assert.deepEqual([stopReason, _meta], ['cancelled', { drover: { message: { status: 'replaced' } } }]);
    assert.deepEqual([(await first).stopReason, (await late).stopReason], ['end_turn', 'end_turn']);
    assert.equal(client.text(), 'holds the placelate');
  });

  it('is not cancelled by a client that leaves, which finds its turn by the id of its prompt', async () => {
    const first = await open();
    const id = await first.newSession();
    const cut = first.prompt(id, 'wait 300 say stayed', 'p1').catch(() => 'cut');
    await waitUntil('the model is asked', () => api.model.asked('say stayed').length === 1);
    first.leave();
    assert.equal(await cut, 'cut');
    const again = await open();
    await again.load(id, 0);
    assert.equal((await again.prompt(id, 'wait 300 say stayed', 'p1')).stopReason, 'end_turn');
    assert.equal(again.text(), 'stayed');
    assert.equal(api.model.asked('say stayed').length, 1);
  });

  it('tells of a turn that has failed by an error of its prompt', async () => {
    const hasty = await api.newAgent([], { execution_config: { timeout_seconds: 1 } });
    const client = await open(hasty);
    const failed = client.prompt(await client.newSession(), 'hang say late');
    await assert.rejects(failed, (error: { code: number; data: { code: string } }) => {
      assert.deepEqual([error.code, error.data.code], [-32603, 'turn_timeout']);
      return true;
    });
  });

  it('refuses what it cannot do', async () => {
    const client = await open();
    const id = await client.newSession();
    const { session } = methods.agent;
    const code = (promise: Promise<unknown>) =>
      promise.then(
        () => 0,
        (error: { code: number }) => error.code,
      );
    const server = { type: 'http' as const, name: 'x', url: 'https://x.example', headers: [] };
    assert.equal(await code(client.agent.request(session.new, { cwd: '/', mcpServers: [server] })), -32602);
    const load = { cwd: '/', mcpServers: [server], sessionId: id };
    assert.equal(await code(client.agent.request(session.load, load)), -32602);
    assert.equal(await code(client.load(randomUUID())), -32002);
    assert.equal(await code(client.load('a name')), -32002);
    assert.equal(await code(client.prompt(randomUUID(), 'x')), -32002);
    assert.equal(await code(client.agent.request(session.prompt, { sessionId: id, prompt: [] })), -32602);
    const audio = { type: 'audio' as const, data: 'AA==', mimeType: 'audio/wav' };
    const prompt = [{ type: 'text' as const, text: 'x' }, audio];
    assert.equal(await code(client.agent.request(session.prompt, { sessionId: id, prompt })), -32602);
    assert.equal(
      await code(client.agent.request(session.prompt, { sessionId: id, prompt, _meta: { drover: { b: 1 } } })),
      -32602,
    );
    const busy = client.prompt(id, 'wait 300 say busy');
    await waitUntil('the model is asked', () => api.model.asked('say busy').length === 1);
    const rejecting = { prompt: [{ type: 'text' as const, text: 'more' }], _meta: { drover: { mode: 'reject' } } };
    assert.equal(await code(client.agent.request(session.prompt, { sessionId: id, ...rejecting })), -32600);
    await busy;
    const other = await api.newTenant();
    const { json: theirs } = await api.call('POST', '/v1/agents', { key: other.key, body: { name: 'theirs' } });
    const stranger = await open(theirs.id, { key: other.key });
    assert.equal(await code(stranger.load(id)), -32002);
    assert.equal(await code(stranger.prompt(id, 'x')), -32002);
  });

  it('asks no key for a decision that it may not make', async () => {
    const careful = await api.newAgent(['calculator'], { autonomy_level: 0 });
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } });
    let asks = 0;
    const onPermission: AcpOptions['onPermission'] = async () => {
      asks += 1;
      return choose('approve');
    };
    const client = await open(careful, { key: json.key, onPermission });
    const id = await client.newSession();
    const answered = client.prompt(id, 'call calculator {"expression":"6*7"} | say asked');
    const pending = async () => (await api.call('GET', '/v1/approvals?status=pending')).json.approvals;
    await waitUntil('it is asked', async () => (await pending()).length === 1);
    await waitUntil('its call waits', () =>
      client.updates.some((update) => 'status' in update && update.status === 'pending'),
    );
    await client.roundTrip();
    assert.equal(asks, 0);
    await api.call('POST', `/v1/approvals/${(await pending())[0].id}`, { body: { decision: 'approve' } });
    await answered;
  });

  it('shows a session to all who are connected, on whichever connection it was asked', async () => {
    const [first, second] = [await open(), await open()];
    const id = await first.newSession();
    const answered = first.prompt(id, 'wait 200 call calculator {"expression":"20+3"} | say seen by both');
    await waitUntil('the model is asked', () => api.model.asked('say seen by both').length === 1);
    await second.load(id);
    await answered;
    await waitUntil('the other has it, too', () => second.text() === 'seen by both');
    assert.deepEqual(callsOf(second), callsOf(first));
  });

  it('ends with its key, and with a message that is too long; its turn does not', async () => {
    const closeOf = (socket: WebSocket) => new Promise<number>((resolve) => socket.once('close', resolve));
    const connect = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const socket = new WebSocket(`${api.url.replace('http', 'ws')}/acp/${agent}`, { headers });
      socket.on('error', () => undefined);
      await new Promise((resolve) => socket.once('open', resolve));
      return socket;
    };
    const long = await connect(api.key);
    long.send('x'.repeat(1024 * 1024 + 1));
    assert.equal(await closeOf(long), 1009);
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:write'] } });
    const client = await open(agent, { key: json.key });
    const id = await client.newSession();
    const cut = client.prompt(id, 'wait 300 say without a key').catch(() => 'cut');
    await waitUntil('the model is asked', () => api.model.asked('say without a key').length === 1);
    const other = await connect(json.key);
    const code = closeOf(other);
    await api.call('DELETE', `/v1/api-keys/${json.id}`);
    assert.equal(await code, 4001);
    assert.equal(await cut, 'cut');
    const again = await open();
    await again.load(id);
    await waitUntil('it has its answer', () => again.text() === 'without a key');
  });

  it('answers before the upgrade who may not, and what is no message with an error', async () => {
    const refused = (path: string, headers: Record<string, string>) =>
      new Promise<number | undefined>((resolve) => {
        const socket = new WebSocket(`${api.url.replace('http', 'ws')}${path}`, { headers });
        socket.on('unexpected-response', (_request, response) => {
          socket.terminate();
          resolve(response.statusCode);
        });
        socket.on('error', () => undefined);
      });
    const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
    assert.equal(await refused(`/acp/${agent}`, {}), 401);
    assert.equal(await refused(`/acp/${randomUUID()}`, bearer(api.key)), 404);
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'k', scopes: ['runs:read'] } });
    assert.equal(await refused(`/acp/${agent}`, bearer(json.key)), 403);
    assert.equal((await api.call('GET', `/acp/${agent}`)).status, 426);
    const socket = new WebSocket(`${api.url.replace('http', 'ws')}/acp/${agent}`, { headers: bearer(api.key) });
    const answers: { id: unknown; error: { code: number; message: string } }[] = [];
    socket.on('message', (data: Buffer) => answers.push(JSON.parse(data.toString())));
    await new Promise((resolve) => socket.once('open', resolve));
    const rounded =
      '{"jsonrpc":"2.0","id":7,"method":"session/new","params":{"cwd":"/","_meta":{"n":9007199254740993}}}';
    const sent = ['{', '[]', '"x"', `${'['.repeat(300)}${']'.repeat(300)}`, rounded, '{"id":9007199254740993}'];
    for (const text of sent) socket.send(text);
    socket.send(Buffer.from('{}'), { binary: true });
    await waitUntil('all are answered', () => answers.length === 7);
    assert.deepEqual(
      answers.map(({ id, error }) => [id, error.code]),
      [
        [null, -32700],
        [null, -32600],
        [null, -32600],
        [null, -32600],
        [7, -32602],
        [null, -32600],
        [null, -32600],
      ],
    );
    assert.match(answers[4]?.error.message ?? '', /^body\.params\._meta\.n is an integer/);
    socket.terminate();
  });
});
