import assert from 'node:assert/strict';
import type { Call } from '../support/api.ts';
import { startServer, type LocalServer, type SeenRequest } from '../support/echo-server.ts';
import { newName } from '../support/new-name.ts';
import { startScriptedService, type ScriptedService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';

/** The tool's side: it answers a key that it knows as before, and pays once for each. */
describe('A tool that is executed directly with an Idempotency-Key', () => {
  let api: ScriptedService;
  let server: LocalServer;
  const payments = new Map<string, string>();
  const held: (() => void)[] = [];
  /** How the path has to answer from now on; it pays where there is nothing. */
  const answers = new Map<string, (respond: () => void, request: SeenRequest) => number | void>();

  before(async () => {
    server = await startServer((request, response) => {
      const key = String(request.headers['idempotency-key']);
      if (!payments.has(key)) payments.set(key, request.body);
      const respond = () =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(`{"paid":${payments.get(key) ?? ''}}`);
      const status = answers.get(request.path)?.(respond, request);
      if (status !== undefined) response.writeHead(status, { 'retry-after': '1' }).end();
      else if (!answers.has(request.path)) respond();
    });
    api = await startScriptedService({ env: { DROVER_EGRESS_ALLOW: '127.0.0.1' } });
  });
  beforeEach(() => {
    server.seen.length = 0;
    answers.clear();
  });
  after(async () => {
    await api.close();
    await server.close();
  });

  const newTool = async (path: string, fields: object = {}) => {
    const name = newName('pay').replaceAll(' ', '_');
    const transport = { type: 'http', endpoint: `${server.url}${path}` };
    const { json, text } = await api.call('POST', '/v1/tools', {
      body: { name, description: 'Pays.', transport, ...fields },
    });
    assert.ok(json.id, text);
    return { name, id: String(json.id) };
  };
  const execute = ({ id }: { id: string }, key: string, more: Call = {}) => {
    const body = { input: { amount: 1 } };
    return api.call('POST', `/v1/tools/${id}/execute`, { body, headers: { 'idempotency-key': key }, ...more });
  };
  const keysSeen = () => server.seen.map(({ headers }) => headers['idempotency-key']);

  it('takes over no call of a run, whatever the key', async () => {
    const { json: insider } = await api.call('POST', '/v1/api-keys', {
      body: { name: 'insider', scopes: ['tools:execute', 'runs:read'] },
    });
    const pay = await newTool('/run', { risk_level: 'WRITE_LOW_RISK' });
    const agent = await api.newAgent([pay.name], { autonomy_level: 1 });
    const paying = { amount: 500, to: 'supplier' };
    const message = `call ${pay.name} ${JSON.stringify(paying)} | say done`;
    const { run_id: run } = (await api.call('POST', `/v1/agents/${agent}/runs`, { body: { input: { message } } })).json;
    let approval = '';
    await waitUntil('a person is asked', async () => {
      const { waiting_for: wait } = (await api.call('GET', `/v1/runs/${run}`)).json;
      approval = wait?.approval_id ?? '';
      return approval !== '';
    });
    const input = { amount: 0.01, to: 'insider' };
    const own = await execute(pay, `${run}-1-0`, { body: { input }, key: insider.key });
    assert.equal(own.json.status, 'success', own.text);
    await api.call('POST', `/v1/approvals/${approval}`, { body: { decision: 'approve' } });
    await waitUntil('it is done', async () => (await api.call('GET', `/v1/runs/${run}`)).json.status === 'completed');
    assert.deepEqual(JSON.parse(payments.get(`${run}-1-0`) ?? 'null'), paying);
    assert.match(String(keysSeen()[0]), /^execute-[0-9a-f]{64}$/);
  });

  it('is called once for a key and a body, and the first answer is given again', async () => {
    const pay = await newTool('/once');
    const first = await execute(pay, 'order-7');
    const again = await execute(pay, 'order-7');
    assert.deepEqual([again.status, again.json], [200, first.json]);
    assert.equal(again.headers.get('idempotent-replayed'), 'true');
    assert.equal(server.seen.length, 1);
    assert.equal((await execute(pay, 'order-7', { body: { input: { amount: 2 } } })).status, 422);
    assert.equal((await execute(pay, 'x'.repeat(300))).status, 400);
    assert.equal(server.seen.length, 1);
    await execute(pay, 'order-8');
    assert.equal(new Set(keysSeen()).size, 2);
  });

  it('is not called again while there is no answer, unless it knows a repeated call by its key', async () => {
    const holds = async (path: string, fields: object) => {
      const tool = await newTool(path, fields);
      answers.set(path, (respond) => void held.push(respond));
      const first = execute(tool, 'order-9');
      await waitUntil('the tool is called', () => held.length === 1);
      return { tool, first };
    };
    const unknown = await holds('/unknown', {});
    const refused = await execute(unknown.tool, 'order-9');
    assert.deepEqual([refused.status, /outcome is unknown/.test(refused.json.detail)], [409, true]);
    held.splice(0).forEach((respond) => respond());
    assert.equal((await unknown.first).json.status, 'success');
    assert.deepEqual((await execute(unknown.tool, 'order-9')).json, (await unknown.first).json);
    assert.equal(server.seen.length, 1);

    const known = await holds('/known', { annotations: { idempotentHint: true } });
    const second = execute(known.tool, 'order-9');
    await waitUntil('the tool is called again', () => held.length === 2);
    held.splice(0).forEach((respond) => respond());
    assert.deepEqual((await second).json.output, (await known.first).json.output);
    assert.equal(new Set(keysSeen().slice(1)).size, 1);
  });

  it('is called again where it was surely not reached, and not where it may have had its effect', async () => {
    const busy = await newTool('/busy');
    answers.set('/busy', () => 503);
    assert.equal((await execute(busy, 'order-10')).json.status, 'error');
    answers.clear();
    assert.equal((await execute(busy, 'order-10')).json.status, 'success');
    const lost = await newTool('/lost');
    answers.set('/lost', (_respond, { socket }) => void socket.destroy());
    const first = await execute(lost, 'order-11');
    answers.clear();
    const again = await execute(lost, 'order-11');
    assert.deepEqual([first.json.status, again.json], ['error', first.json]);
    assert.equal(server.seen.length, 3);
  });

  it('is not called for another body with the key of a call that may have had its effect', async () => {
    const pay = await newTool('/perhaps', { annotations: { idempotentHint: true } });
    answers.set('/perhaps', () => 502);
    assert.equal((await execute(pay, 'order-12')).json.status, 'error');
    answers.clear();
    assert.equal((await execute(pay, 'order-12', { body: { input: { amount: 2 } } })).status, 422);
    assert.equal((await execute(pay, 'order-12')).json.status, 'success');
    assert.equal(new Set(keysSeen()).size, 1);
  });
});
