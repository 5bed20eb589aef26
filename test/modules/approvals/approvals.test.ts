import assert from 'node:assert/strict';
import { startServer, type LocalServer } from '../../support/echo-server.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { openTestPlatform, type TestPlatform } from '../../support/platform.ts';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { newName } from '../../support/new-name.ts';

interface Approval {
  id: string;
  run_id: string;
  kind: string;
  tool: string;
  arguments: Record<string, unknown>;
  digest: string;
  status: string;
  expires_at: string;
}

describe('approvals and signals', () => {
  let model: ScriptedModel;
  let platform: TestPlatform;
  let payments: LocalServer;
  let breaksOff = false;

  before(async () => {
    model = await startScriptedModel();
    payments = await startServer(({ body, socket }, response) => {
      if (breaksOff) {
        socket.destroy();
        return;
      }
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ paid: JSON.parse(body).amount }));
    });
    platform = await openTestPlatform(DOMAIN_MODE, {
      workers: true,
      api: true,
      env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url },
    });
    const registered = await call('POST', '/v1/tools', {
      name: 'pay',
      description: 'Pays.',
      input_schema: { type: 'object', properties: { amount: { type: 'number', maximum: 1000 } }, required: ['amount'] },
      transport: { type: 'http', endpoint: `${payments.url}/pay` },
      risk_level: 'WRITE_HIGH_RISK',
    });
    assert.equal(registered.status, 201);
  });

  after(async () => {
    await platform.close();
    await payments.close();
    await model.close();
  });

  async function call(method: string, path: string, body?: unknown) {
    const response = await fetch(`${platform.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${platform.apiKey}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: (text ? JSON.parse(text) : {}) as Record<string, never> };
  }

  async function startRun(message: string, config: Record<string, unknown> = {}, agent: Record<string, unknown> = {}) {
    const tools = ['pay', 'ask_user'];
    const { body: made } = await call('POST', '/v1/agents', { name: newName('payer'), tools, ...agent });
    const { status, body } = await call('POST', `/v1/agents/${made['id']}/runs`, { input: { message }, config });
    assert.equal(status, 202, JSON.stringify(body));
    return String(body['run_id']);
  }

  const getRun = async (run: string) => (await call('GET', `/v1/runs/${run}`)).body as Record<string, unknown>;
  const runIs = (run: string, status: string) =>
    waitUntil(`run ${run} is ${status}`, async () => (await getRun(run))['status'] === status);

  async function openApproval(run: string): Promise<Approval> {
    await runIs(run, 'awaiting_human');
    const { body } = await call('GET', `/v1/approvals?status=pending&run_id=${run}`);
    const [approval, ...others] = body['approvals'] as unknown as Approval[];
    assert.ok(approval);
    assert.equal(others.length, 0);
    return approval;
  }

  const paidBy = (run: string) => payments.seen.filter(({ headers }) => headers['x-drover-run-id'] === run);
  const messageOf = async (run: string) => ((await getRun(run))['output'] as { message: string }).message;

  it('holds a high-risk call until a person approves exactly its arguments, then makes it once', async () => {
    const run = await startRun('call pay {"amount":7}');
    const approval = await openApproval(run);
    assert.deepEqual([approval.kind, approval.tool, approval.arguments], ['approval', 'pay', { amount: 7 }]);
    assert.equal(paidBy(run).length, 0);
    assert.equal(((await getRun(run))['waiting_for'] as { type: string }).type, 'approval');

    assert.equal((await call('POST', `/v1/approvals/${approval.id}`, { decision: 'approve' })).status, 200);
    await runIs(run, 'completed');
    assert.equal(paidBy(run).length, 1);
    assert.equal(await messageOf(run), 'done: {"paid":7}');
    const again = await call('POST', `/v1/approvals/${approval.id}`, { decision: 'approve' });
    assert.deepEqual([again.status, again.body['status']], [200, 'approved']);
    assert.equal((await call('POST', `/v1/approvals/${approval.id}`, { decision: 'deny' })).status, 409);
  });

  it('keeps why a person has approved the call, as it is or with other arguments', async () => {
    const decisions = [{ decision: 'approve' }, { decision: 'edit', arguments: { amount: 6 } }];
    for (const decision of decisions) {
      const run = await startRun('call pay {"amount":7}');
      const { id } = await openApproval(run);
      const { body } = await call('POST', `/v1/approvals/${id}`, { ...decision, reason: 'it is due' });
      assert.equal(body['reason'], 'it is due', decision.decision);
      assert.equal((await call('GET', `/v1/approvals/${id}`)).body['reason'], 'it is due', decision.decision);
      await runIs(run, 'completed');
    }
  });

  it('tells the model that a person denied the call, and why', async () => {
    const run = await startRun('call pay {"amount":8}');
    const { id } = await openApproval(run);
    await call('POST', `/v1/approvals/${id}`, { decision: 'deny', reason: 'too much' });
    await runIs(run, 'completed');
    assert.equal(paidBy(run).length, 0);
    assert.match(await messageOf(run), /denied the call: too much/);
  });

  it('makes the call with the arguments that a person put in place, which must fit the schema', async () => {
    const run = await startRun('call pay {"amount":900}');
    const { id, digest } = await openApproval(run);
    const wrong = await call('POST', `/v1/approvals/${id}`, { decision: 'edit', arguments: { amount: 5000 } });
    assert.equal(wrong.status, 422);
    const edited = await call('POST', `/v1/approvals/${id}`, { decision: 'edit', arguments: { amount: 9 } });
    assert.equal(edited.status, 200);
    assert.notEqual(edited.body['digest'], digest);
    await runIs(run, 'completed');
    assert.deepEqual(
      paidBy(run).map(({ body }) => JSON.parse(body)),
      [{ amount: 9 }],
    );
  });

  it('tells the model when nobody decides in time', async () => {
    const run = await startRun('call pay {"amount":3}', {}, { execution_config: { approval_timeout_seconds: 0.2 } });
    await runIs(run, 'completed');
    assert.match(await messageOf(run), /Nobody approved the call in time/);
    assert.equal(paidBy(run).length, 0);
  });

  it('lets a synchronous turn answer awaiting_human, and keeps the calls of one answer apart', async () => {
    const run = await startRun('call pay {"amount":1} & pay {"amount":2}');
    await runIs(run, 'awaiting_human');
    const { body } = await call('GET', `/v1/approvals?status=pending&run_id=${run}`);
    const [second, first] = body['approvals'] as unknown as Approval[];
    await call('POST', `/v1/approvals/${first?.id}`, { decision: 'approve' });
    await waitUntil('the approved call is made', async () => paidBy(run).length === 1);
    await call('POST', `/v1/approvals/${second?.id}`, { decision: 'deny' });
    await runIs(run, 'completed');
    assert.equal(paidBy(run).length, 1);
    assert.match(await messageOf(run), /^done: \{"paid":1\}, A person denied the call/);
  });

  it('closes what it asked when the run is cancelled', async () => {
    const run = await startRun('call pay {"amount":4}');
    const { id } = await openApproval(run);
    assert.equal((await call('POST', `/v1/runs/${run}/cancel`, {})).status, 202);
    assert.equal((await call('GET', `/v1/approvals/${id}`)).body['status'], 'expired');
    assert.equal((await call('POST', `/v1/approvals/${id}`, { decision: 'approve' })).status, 409);
    assert.equal(paidBy(run).length, 0);
  });

  describe('a call of unknown outcome', () => {
    before(() => {
      breaksOff = true;
    });
    after(() => {
      breaksOff = false;
    });
    const bold = { autonomy_level: 3 };

    it('asks a person by default, and goes on with the result that the person gives', async () => {
      const run = await startRun('call pay {"amount":21}', bold);
      const approval = await openApproval(run);
      assert.equal(approval.kind, 'unknown');
      assert.equal((await call('POST', `/v1/approvals/${approval.id}`, { decision: 'approve' })).status, 422);
      await call('POST', `/v1/approvals/${approval.id}`, { decision: 'happened', result: { paid: 21 } });
      await runIs(run, 'completed');
      assert.equal(await messageOf(run), 'done: {"paid":21}');
      assert.equal(paidBy(run).length, 1);
    });

    it('takes what a person says that it gave once: the same again is no other decision, another result is 409', async () => {
      const run = await startRun('call pay {"amount":27}', bold);
      const { id } = await openApproval(run);
      const say = (result?: unknown) => call('POST', `/v1/approvals/${id}`, { decision: 'happened', result });
      const result = { paid: 27, to: { name: 'Ada\u0000', rate: 1.5 } };
      assert.equal((await say(result)).status, 200);
      assert.equal((await say({ to: { rate: 1.5, name: 'Ada\u0000' }, paid: 27 })).status, 200);
      for (const other of [{ ...result, paid: 28 }, '27', null]) {
        const { status, body } = await say(other);
        assert.deepEqual([status, body['status_of_approval']], [409, 'settled'], JSON.stringify(other));
      }
      await runIs(run, 'completed');
      assert.deepEqual([(await say(result)).status, (await say({ paid: 28 })).status], [200, 409]);
    });

    it('is made again with the same key where a person says so', async () => {
      const run = await startRun('call pay {"amount":22}', bold);
      const { id } = await openApproval(run);
      breaksOff = false;
      await call('POST', `/v1/approvals/${id}`, { decision: 'rerun' });
      await runIs(run, 'completed');
      breaksOff = true;
      assert.equal(await messageOf(run), 'done: {"paid":22}');
      const keys = paidBy(run).map(({ headers }) => headers['idempotency-key']);
      assert.equal(keys.length, 2);
      assert.equal(new Set(keys).size, 1);
    });

    it('is told to the model once a person gives up', async () => {
      const run = await startRun('call pay {"amount":23}', bold);
      const { id } = await openApproval(run);
      await call('POST', `/v1/approvals/${id}`, { decision: 'give_up' });
      await runIs(run, 'completed');
      assert.match(await messageOf(run), /may or may not have taken effect/);
      assert.equal(paidBy(run).length, 1);
    });

    it('is told to the model at once, fails the turn, or is made again, as on_unknown says', async () => {
      const told = await startRun('call pay {"amount":24}', bold, { execution_config: { on_unknown: 'tell_model' } });
      await runIs(told, 'completed');
      assert.match(await messageOf(told), /may or may not have taken effect/);

      const failed = await startRun('call pay {"amount":25}', bold, { execution_config: { on_unknown: 'fail' } });
      await runIs(failed, 'failed');
      assert.equal(((await getRun(failed))['error'] as { code: string }).code, 'outcome_unknown');

      const again = await startRun('call pay {"amount":26}', bold, { execution_config: { on_unknown: 'retry' } });
      await waitUntil('a first attempt', async () => paidBy(again).length === 1);
      breaksOff = false;
      await runIs(again, 'completed');
      breaksOff = true;
      assert.equal(await messageOf(again), 'done: {"paid":26}');
    });
  });

  describe('ask_user', () => {
    const answer = (run: string, message: string, id?: string) =>
      call('POST', `/v1/runs/${run}/signals`, { type: 'user', payload: { message }, ...(id && { id }) });

    it('waits for a signal of type user and hands it to the model', async () => {
      const run = await startRun('call ask_user {"question":"How much?"}');
      await runIs(run, 'awaiting_human');
      assert.equal(((await getRun(run))['waiting_for'] as { type: string }).type, 'user');
      assert.equal((await answer(run, 'ten')).status, 202);
      await runIs(run, 'completed');
      assert.equal(await messageOf(run), 'done: {"message":"ten"}');
      assert.equal((await answer(run, 'late')).status, 409);
    });

    it('keeps a signal that came early, and counts one that came twice once', async () => {
      const run = await startRun('wait 700 call ask_user {"question":"a?"} | call ask_user {"question":"b?"}');
      assert.equal((await answer(run, 'early', 'one')).status, 202);
      assert.equal((await answer(run, 'early', 'one')).status, 200);
      assert.equal((await answer(run, 'another', 'one')).status, 422, 'it would be lost');
      const hook = { type: 'webhook', payload: { message: 'early' }, id: 'one' };
      assert.equal((await call('POST', `/v1/runs/${run}/signals`, hook)).status, 422);
      await waitUntil('the second question', async () => model.asked('"question":"b?"').length === 2);
      await runIs(run, 'awaiting_human');
      await answer(run, 'second');
      await runIs(run, 'completed');
      assert.equal(await messageOf(run), 'done: {"message":"early"}, {"message":"second"}');
    });

    it('refuses a signal whose payload does not fit its type', async () => {
      const run = await startRun('call ask_user {"question":"x?"}');
      const { status, body } = await call('POST', `/v1/runs/${run}/signals`, { type: 'user', payload: { text: 'x' } });
      assert.equal(status, 400);
      assert.match(JSON.stringify(body['errors']), /body\.payload/);
      await call('POST', `/v1/runs/${run}/cancel`, {});
    });
  });
});
