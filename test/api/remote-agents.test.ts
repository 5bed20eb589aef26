/** Agents of other platforms as workers: one on the official SDK, and one of a Drover. */
import assert from 'node:assert/strict';
import { reconcile } from '../../modules/run-log/reconcile.ts';
import { rebuildProjections } from '../../modules/run-log/rebuild-projections.ts';
import { methodOf, startA2aServer, type A2aServer } from '../support/a2a-server.ts';
import { newName } from '../support/new-name.ts';
import { startServer, type LocalServer } from '../support/echo-server.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

interface Task {
  subtask_id: string;
  status: string;
  error?: { code?: string; message: string } | null;
  output?: { result?: unknown } | null;
}

describe('a remote agent over A2A', () => {
  let api: ScriptedService;
  let remote: A2aServer;
  /** Stands before a Drover, and loses its first answer. */
  let lossy: LocalServer;
  let proxied = 0;
  let worker: string;
  const agents: Record<string, string> = {};

  const made = async (path: string, body: unknown) => {
    const { status, json, text } = await api.call('POST', path, { body });
    assert.ok(status < 300, text);
    return json;
  };
  const read = async (path: string) => (await api.call('GET', path)).json;
  /** An agent whose whole work is one call of a remote agent. */
  const register = async (
    name: string,
    transport: Record<string, unknown>,
    ...[more = {}, execution_config = {}]: Record<string, unknown>[]
  ) => {
    const tool = {
      name: `ask_${name}`,
      description: `Has the remote agent ${name} do it.`,
      input_schema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
      transport: { type: 'a2a', ...transport },
      ...more,
    };
    await made('/v1/tools', tool);
    const node = { name: 'remote', type: 'tool', config: { tool: tool.name, input: { message: '{{input}}' } } };
    const workflow_graph = { entry_point: 'remote', nodes: [node], edges: [] };
    agents[name] = (await made('/v1/agents', { name, workflow_graph, execution_config })).id;
  };
  const start = async (agent: string, message: string): Promise<string> =>
    (await made(`/v1/agents/${agents[agent]}/runs`, { input: { message } })).run_id;
  const ended = async (run: string) => {
    const ends = ['completed', 'failed', 'cancelled', 'awaiting_human'];
    await waitUntil('the run ends', async () => ends.includes((await read(`/v1/runs/${run}`)).status));
    return read(`/v1/runs/${run}`);
  };
  const callOf = async (run: string) => {
    const { turns } = await read(`/v1/runs/${run}/turns`);
    return (await read(`/v1/runs/${run}/turns/${turns[0].id}`)).tool_calls[0];
  };
  const isLooked = (run: string) =>
    waitUntil('the remote task is looked at', async () => {
      const { status } = await read(`/v1/runs/${run}`);
      return remote.count('GetTask') > 0 && status === 'awaiting_tool';
    });

  before(async () => {
    remote = await startA2aServer();
    api = await startScriptedService();
    await register('sdk', { endpoint: `${remote.url}/rpc` });
    await register('brief', { endpoint: `${remote.url}/rpc`, max_seconds: 1 });
    worker = await api.newAgent([]);
    lossy = await startServer((request, response) => {
      const { path, headers, body: text } = request;
      const { authorization = '', 'a2a-version': version = '' } = headers;
      const sent = { authorization, 'a2a-version': String(version), 'content-type': 'application/json' };
      void fetch(`${api.url}${path}`, { method: 'POST', headers: sent, body: text }).then(async (answer) => {
        if (methodOf(text) === 'SendMessage') proxied += 1;
        if (proxied === 1) response.destroy();
        else response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
      });
    });
    const body = { value: api.key, hosts: [new URL(lossy.url).host] };
    assert.ok((await api.call('PUT', '/v1/secrets/remote_key', { body })).status < 300);
    await register(
      'drover',
      { endpoint: `${lossy.url}/a2a/${worker}`, headers: { authorization: 'Bearer {{secret:remote_key}}' } },
      { annotations: { idempotentHint: true } },
    );
  });
  beforeEach(() => {
    remote.seen.length = 0;
    remote.intercept = () => false;
  });
  after(async () => {
    const { differences } = await rebuildProjections(api.context.db, { check: true });
    await api.close();
    await remote.close();
    await lossy.close();
    assert.deepEqual(differences, []);
  });

  it('does the work of an agent, whose answer is what it has made', async () => {
    const run = await ended(await start('sdk', 'say hello'));
    assert.deepEqual([run.status, run.output?.message], ['completed', 'hello'], JSON.stringify(run));
    assert.equal(remote.count('SendMessage'), 1);
    const sent = JSON.parse(remote.seen[0]?.body ?? '');
    assert.deepEqual(sent.params.message.parts, [{ text: 'say hello' }]);
    assert.equal(remote.seen[0]?.headers['a2a-version'], '1.0');
    const chat = await ended(await start('sdk', 'chat hi'));
    assert.equal(chat.output?.message, 'hi');
  });

  it('answers with data and files as what they are', async () => {
    const { output } = await ended(await start('sdk', 'data'));
    assert.deepEqual(JSON.parse(output.message).artifacts, [
      {
        name: 'answer',
        parts: [{ data: { n: 7 } }, { omitted_base64_chars: 8, filename: 'hello.txt', media_type: 'text/plain' }],
      },
    ]);
  });

  it('takes its time without anybody who waits for it', async () => {
    const run = await start('sdk', 'held later');
    await isLooked(run);
    remote.release();
    const { status, output } = await ended(run);
    assert.deepEqual([status, output.message], ['completed', 'later']);
    assert.equal(remote.count('SendMessage'), 1);
    const { events } = await read(`/v1/runs/${run}/events?types=tool.started&limit=50`);
    assert.equal(events.length, 1, 'looks are not told');
  });

  it('is looked at again where it does not answer, and has failed where it does not know its task', async () => {
    let looks = 0;
    remote.intercept = ({ body }, response) => {
      if (methodOf(body) !== 'GetTask') return false;
      looks += 1;
      if (looks === 1) response.destroy();
      else if (looks === 2) response.writeHead(500).end();
      else response.end('{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"What task?"}}');
      return true;
    };
    const { run_id } = await ended(await start('sdk', 'held nothing'));
    const { status, error } = await callOf(run_id);
    assert.deepEqual([status, error.code, looks, remote.count('SendMessage')], ['failed', 'remote-gone', 3, 1]);
    remote.release();
  });

  it('hears nothing that a policy denies', async () => {
    const when = 'tool == "ask_sdk" && arguments.message.contains("secret")';
    const { id } = await made('/v1/policies', { name: 'no secrets', when, decision: 'block' });
    const { run_id } = await ended(await start('sdk', 'say secret'));
    assert.equal((await callOf(run_id)).status, 'denied');
    assert.equal(remote.seen.length, 0);
    await api.call('DELETE', `/v1/policies/${id}`);
  });

  /** What the remote agent asks of a run's user. */
  const asked = async (run: string, question: string): Promise<void> =>
    waitUntil(`it asks ${question}`, async () => {
      const { waiting_for: wait } = await read(`/v1/runs/${run}`);
      return wait?.type === 'user' && wait.question === question;
    });
  /** Answers, and waits until the turn is over or something is asked again; its status by then. */
  const answer = async (run: string, text: string): Promise<string> => {
    const { status, json, text: said } = await api.call('POST', `/v1/runs/${run}/resume`, { body: { answer: text } });
    assert.equal(status, 200, said);
    return json.output.status;
  };
  const messages = () =>
    remote.seen
      .filter(({ body }) => methodOf(body) === 'SendMessage')
      .map(({ body }) => JSON.parse(body).params.message as { messageId: string; taskId?: string; parts: object[] });

  it('asks a person, as often as it needs to, and goes on with the answers', async () => {
    const run = await start('sdk', 'ask which one?');
    await asked(run, 'which one?');
    await waitUntil('the run asks', async () => (await read(`/v1/runs/${run}`)).status === 'awaiting_human');
    assert.equal(await answer(run, 'ask really?'), 'awaiting_human');
    await asked(run, 'really?');
    const { events } = await read(`/v1/runs/${run}/events?types=input.requested,signal.received&limit=50`);
    assert.equal(events.length, 3);
    assert.equal(await answer(run, 'say the blue one'), 'complete');
    const { status, output } = await ended(run);
    assert.deepEqual([status, output?.message], ['completed', 'the blue one']);
    const [first, ...replies] = messages();
    assert.equal(first?.taskId, undefined);
    assert.deepEqual(
      replies.map(({ parts }) => parts),
      [[{ text: 'ask really?' }], [{ text: 'say the blue one' }]],
    );
    assert.equal(new Set(replies.map(({ taskId }) => taskId)).size, 1);
    assert.equal(new Set(messages().map(({ messageId }) => messageId)).size, 3);
    assert.equal(remote.count('CancelTask'), 0);
  });

  it('asks whoever waits for the turn', async () => {
    const { run_id: run } = await made(`/v1/agents/${agents['sdk']}/runs`, {});
    const { output } = await made(`/v1/agents/${agents['sdk']}/runs/${run}/turns`, { input: { message: 'ask how?' } });
    assert.equal(output.status, 'awaiting_human');
    assert.equal((await read(`/v1/runs/${run}`)).waiting_for.question, 'how?');
  });

  it('asks without the secret that it was given', async () => {
    const body = { value: 'sesame-open', hosts: [new URL(remote.url).host] };
    assert.equal((await api.call('PUT', '/v1/secrets/sesame', { body })).status, 201);
    await register('keyed', { endpoint: `${remote.url}/rpc`, headers: { 'x-key': '{{secret:sesame}}' } });
    await asked(await start('keyed', 'ask is it sesame-open?'), 'is it [secret]?');
  });

  it('is told an answer once, although nobody hears that it was', async () => {
    const run = await start('sdk', 'ask for it');
    await asked(run, 'for it');
    remote.intercept = ({ body }, response, handled) => {
      if (methodOf(body) !== 'SendMessage') return false;
      void handled.then(() => response.destroy());
      return true;
    };
    await answer(run, 'say it was told');
    const { status, output } = await ended(run);
    assert.deepEqual([status, output?.message, remote.count('SendMessage')], ['completed', 'it was told', 2]);
  });

  it('is cancelled where nobody answers it, or nobody wants it any more', async () => {
    await register('hasty', { endpoint: `${remote.url}/rpc` }, {}, { approval_timeout_seconds: 1 });
    const late = await start('hasty', 'ask anybody');
    await waitUntil('the run fails', async () => (await read(`/v1/runs/${late}`)).status === 'failed');
    assert.equal((await callOf(late)).error.code, 'no_answer');
    await waitUntil('the remote task is cancelled', () => remote.count('CancelTask') === 1);
    const run = await start('sdk', 'ask in vain');
    await asked(run, 'in vain');
    assert.equal((await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} })).status, 202);
    await waitUntil('the remote task is cancelled', () => remote.count('CancelTask') === 2);
  });

  it('fails with what it says', async () => {
    const failed = await ended(await start('sdk', 'fail no paper'));
    assert.equal(failed.status, 'failed');
    const call = await callOf(failed.run_id);
    assert.deepEqual([call.status, call.error.code, call.error.message], ['failed', 'remote-failed', 'no paper']);
  });

  it('is cancelled with its run, and with its deadline', async () => {
    const run = await start('sdk', 'held for ever');
    await isLooked(run);
    assert.equal((await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} })).status, 202);
    await waitUntil('the remote task is cancelled', () => remote.count('CancelTask') === 1);
    const late = await ended(await start('brief', 'held for ever'));
    assert.equal((await callOf(late.run_id)).error.code, 'deadline');
    await waitUntil('the remote task is cancelled', () => remote.count('CancelTask') === 2);
    remote.release();
  });

  it('is cancelled later where it cannot be reached, whatever becomes of the job', async () => {
    const run = await start('sdk', 'held again');
    await isLooked(run);
    let refused = 0;
    remote.intercept = ({ body }, response) => {
      if (methodOf(body) !== 'CancelTask' || refused > 0) return false;
      refused += 1;
      response.writeHead(503).end();
      return true;
    };
    await api.call('POST', `/v1/runs/${run}/cancel`, { body: {} });
    await waitUntil('it is asked again', async () => {
      await reconcile(api.context, 0);
      return remote.count('CancelTask') > 1;
    });
    remote.release();
  });

  it('is of unknown outcome where its answer was lost, and nobody says that it knows a message again', async () => {
    remote.intercept = ({ body }, response, handled) => {
      if (methodOf(body) !== 'SendMessage' || remote.count('SendMessage') > 1) return false;
      void handled.then(() => response.destroy());
      return true;
    };
    const lost = await ended(await start('sdk', 'say twice'));
    assert.equal((await callOf(lost.run_id)).status, 'unknown');
    assert.equal(remote.count('SendMessage'), 1);
  });

  it('of another Drover works in a team, once for each message', async () => {
    const { id } = await made('/v1/workflows', {
      name: 'remote',
      agent_id: agents['drover'],
      input: { user_query: 'Go.' },
      definition: {
        subtasks: [
          { id: 'one', description: 'say first', dependencies: [], agent: 'drover' },
          { id: 'two', description: 'say second', dependencies: [], agent: 'sdk' },
        ],
      },
    });
    const workflow = await ended(id);
    const { tasks } = (await read(`/v1/workflows/${id}`)) as { tasks: Task[] };
    assert.deepEqual(
      tasks.map(({ subtask_id, status }) => [subtask_id, status]),
      [
        ['one', 'completed'],
        ['two', 'completed'],
      ],
      JSON.stringify([workflow, tasks]),
    );
    assert.equal((await read(`/v1/runs?agent=${worker}`)).runs.length, 1);
    assert.equal(proxied, 2, 'the first answer was lost');
  });

  it('taints whoever reads what it has made', async () => {
    const boss = await api.newAgent(['delegate', 'confirm']);
    const wish = `call delegate ${JSON.stringify({ agent: 'sdk', description: 'say trust me' })} | say so`;
    const { run_id } = await made(`/v1/agents/${boss}/runs`, { input: { message: wish } });
    const run = await ended(run_id);
    assert.equal(run.status, 'completed', JSON.stringify(run));
    const { events } = await read(`/v1/runs/${run_id}/events?types=task.completed,tool.succeeded&limit=50`);
    assert.ok(JSON.stringify(events).includes('"untrusted":true'), JSON.stringify(events));
  });

  it('is registered by its card, and suspended with all that is there', async () => {
    const headers = { authorization: `Bearer ${api.key}` };
    const { tools } = await made('/v1/tools/import', {
      transport: { type: 'a2a', endpoint: `${api.url}/a2a/${worker}`, headers },
    });
    const [tool] = tools;
    assert.deepEqual(
      [tools.length, tool.transport.type, tool.transport.endpoint],
      [1, 'a2a', `${api.url}/a2a/${worker}`],
    );
    assert.equal(tool.transport.headers.authorization, '[hidden]');
    const config = { tool: tool.name, input: { message: '{{input}}' } };
    const workflow_graph = { entry_point: 'remote', nodes: [{ name: 'remote', type: 'tool', config }], edges: [] };
    agents['carded'] = (await made('/v1/agents', { name: 'carded', workflow_graph })).id;
    assert.equal((await ended(await start('carded', 'say by card'))).output?.message, 'by card');
    const { mcp_servers: servers } = await read('/v1/mcp-servers');
    const { id } = servers.find(({ transport }: { transport: { endpoint: string } }) =>
      transport.endpoint.startsWith(api.url),
    );
    await api.call('PATCH', `/v1/mcp-servers/${id}`, { body: { suspended: true } });
    const { run_id } = await ended(await start('carded', 'say it now'));
    assert.equal((await callOf(run_id)).status, 'denied');
    await api.call('PATCH', `/v1/mcp-servers/${id}`, { body: { suspended: false } });
  });

  it('is not registered by a card that cannot be read, or leads elsewhere', async () => {
    const refused = async (endpoint: string): Promise<string> => {
      const { status, json } = await api.call('POST', '/v1/tools/import', {
        body: { transport: { type: 'a2a', endpoint } },
      });
      assert.equal(status, 422);
      return json.detail;
    };
    assert.match(await refused(`${api.url}/a2a/${worker}`), /HTTP 401/);
    const away = { url: 'https://other.example/a2a', protocolBinding: 'JSONRPC', protocolVersion: '1.0' };
    const cards = await startServer((request, response) => {
      const supportedInterfaces = request.path.startsWith('/away') ? [away] : [];
      const text = JSON.stringify({ name: 'odd', description: '', supportedInterfaces });
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(request.path.startsWith('/none') ? '[]' : text);
    });
    assert.match(await refused(`${cards.url}/away`), /another origin/);
    const mcp = { transport: { type: 'http', endpoint: `${cards.url}/mcp` } };
    const noMcp = await api.call('POST', '/v1/tools/import', { body: mcp });
    assert.equal(noMcp.json.detail, 'The MCP server could not be connected to: it does not answer as MCP servers do');
    assert.match(await refused(`${cards.url}/old`), /does not speak/);
    assert.match(await refused(`${cards.url}/none`), /no card/);
    await cards.close();
  });

  it('is told the tenant that the interface of its card names, in each request', async () => {
    const heard: { params: { tenant?: string; message: { messageId: string } } }[] = [];
    const host = await startServer((request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      if (request.method === 'GET') {
        const one = { url: `${host.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0', tenant: 'acme' };
        response.end(JSON.stringify({ name: newName(), description: 'Of a tenant.', supportedInterfaces: [one] }));
        return;
      }
      heard.push(JSON.parse(request.body));
      response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, error: { code: -32000, message: 'no' } }));
    });
    const transport = { type: 'a2a', endpoint: host.url };
    const { json, text } = await api.call('POST', '/v1/tools/import', { body: { transport } });
    const [tool] = json.tools;
    assert.equal(tool?.transport?.tenant, 'acme', text);
    await api.call('POST', `/v1/tools/${tool.id}/execute`, { body: { input: { message: 'hello' } } });
    assert.deepEqual(
      heard.map(({ params }) => params.tenant),
      ['acme'],
    );
    await host.close();
  });

  it('is not registered by a card that repeats a secret where the tool would show it', async () => {
    const value = 'sesame-4711-open';
    const cards = await startServer((request, response) => {
      const known = String(request.headers['authorization']);
      const spoken = { url: `${cards.url}/a2a`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' };
      const ways: Record<string, object> = {
        tenant: { ...spoken, tenant: `of ${known}` },
        url: { ...spoken, url: `${spoken.url}?key=${encodeURIComponent(known)}` },
        // URLs lose their tabs.
        hidden: { ...spoken, url: `${spoken.url}/sesame-47\t11-open` },
      };
      const supportedInterfaces = [ways[request.path.split('/')[1] ?? ''] ?? spoken];
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ name: newName(), description: `Knows ${known}.`, supportedInterfaces }));
    });
    const secret = { value, hosts: [new URL(cards.url).host] };
    assert.ok((await api.call('PUT', '/v1/secrets/card_key', { body: secret })).status < 300);
    const imported = (path: string) => {
      const headers = { authorization: '{{secret:card_key}}' };
      const transport = { type: 'a2a', endpoint: `${cards.url}/${path}`, headers };
      return api.call('POST', '/v1/tools/import', { body: { transport } });
    };
    for (const path of ['tenant', 'url', 'hidden']) {
      const { status, json, text } = await imported(path);
      assert.deepEqual([status, /repeats a secret/.test(json.detail)], [422, true], `${path}: ${text}`);
      assert.ok(!text.includes(value), path);
    }
    const { status, json, text } = await imported('plain');
    assert.deepEqual([status, json.tools[0].description], [201, 'Knows [secret].'], text);
    await cards.close();
  });

  it('is refused a secret that may go elsewhere only', async () => {
    const transport = { type: 'a2a', endpoint: remote.url, headers: { authorization: '{{secret:remote_key}}' } };
    const body = { name: 'thief', description: 'A tool of the test.', transport };
    const { status, text } = await api.call('POST', '/v1/tools', { body });
    assert.equal(status, 422, text);
    assert.match(text, /may not be sent/);
  });
});
