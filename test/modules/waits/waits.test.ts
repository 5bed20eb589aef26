import assert from 'node:assert/strict';
import { newId } from '../../../lib/new-id.ts';
import { claimDueWaits, DUE_WAITS } from '../../../db/waits.ts';
import { reconcile } from '../../../modules/run-log/reconcile.ts';
import { DEFAULT_TENANT_ID } from '../../../modules/tenants/bootstrap.ts';
import { openKeyring } from '../../../modules/tenants/open-keyring.ts';
import { reencryptSecrets } from '../../../modules/tenants/reencrypt-secrets.ts';
import { WEBHOOK_TOKENS } from '../../../modules/waits/webhook-urls.ts';
import { startWorkers, type Workers } from '../../../workers/start-workers.ts';
import { DOMAIN_MODE } from '../../support/modes.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { startScriptedModel, type ScriptedModel } from '../../support/scripted-model.ts';
import { waitUntil } from '../../support/wait-until.ts';
import { textsOfWaitingRuns } from '../../support/queries/logs.ts';
import { planOf } from '../../support/queries/postgres.ts';
import { heldRuns } from '../../support/queries/runs.ts';
import { addTimers, openWaitsOfAll } from '../../support/queries/waits.ts';
import { newName } from '../../support/new-name.ts';

const TOOLS = ['sleep', 'wait_for_webhook', 'ask_user'];

describe('waits for webhooks and for the time', () => {
  let model: ScriptedModel;
  let api: TestApi;
  let workers: Workers;

  before(async () => {
    model = await startScriptedModel();
    api = await startTestApi(DOMAIN_MODE, {
      env: { ANTHROPIC_API_KEY: 'test', ANTHROPIC_BASE_URL: model.url },
      forWorkers: true,
    });
    workers = await startWorkers(api.context);
  });

  after(async () => {
    await workers.stop(3000);
    await api.close();
    await model.close();
  });

  const post = (path: string, body: unknown) => api.call('POST', path, { body });
  const getRun = async (run: string, key = api.key) => (await api.call('GET', `/v1/runs/${run}`, { key })).json;
  const runIs = (run: string, status: string) =>
    waitUntil(`run ${run} is ${status}`, async () => (await getRun(run)).status === status);
  /** A webhook's sender has no key. */
  const deliver = (url: string, body: unknown) => api.call('POST', new URL(url).pathname, { key: null, body });

  async function startRun(message: string, config: Record<string, unknown> = {}): Promise<string> {
    const { json: agent } = await post('/v1/agents', { name: newName('waiter'), tools: TOOLS });
    const { status, json } = await post(`/v1/agents/${agent.id}/runs`, { input: { message }, config });
    assert.equal(status, 202);
    return json.run_id;
  }

  async function waitingRun(message: string): Promise<{ run: string; url: string }> {
    const run = await startRun(message);
    await runIs(run, 'awaiting_human');
    return { run, url: (await getRun(run)).waiting_for.hook_url };
  }

  it('show the address of a webhook after a change of the key, as before', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {"name":"rotated","timeout_seconds":60}');
    const { config, db } = api.context;
    const [next, back] = await Promise.all(
      [
        ['the next key', ...config.secretKeys],
        [...config.secretKeys, 'the next key'],
      ].map((secretKeys) => openKeyring({ ...config, secretKeys })),
    );
    assert.ok(next && back);
    const besides = [WEBHOOK_TOKENS];
    assert.deepEqual((await reencryptSecrets({ db, keyring: next }, { besides })).unreadable, []);
    const page = { keyId: next.currentKeyId(), after: undefined, limit: 10 };
    assert.deepEqual(await db.withTenant(DEFAULT_TENANT_ID, (tx) => WEBHOOK_TOKENS.list(tx, page)), []);
    await reencryptSecrets({ db, keyring: back }, { besides });
    assert.equal((await getRun(run)).waiting_for.hook_url, url);
    assert.equal((await deliver(url, {})).status, 202);
    await runIs(run, 'completed');
  });

  it('give a webhook an address of its own, whose JSON is the result', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {"name":"paid","timeout_seconds":60}');
    const { waiting_for } = await getRun(run);
    assert.deepEqual([waiting_for.type, waiting_for.name], ['webhook', 'paid']);
    const leftMs = Date.parse(waiting_for.until) - Date.now();
    assert.ok(leftMs > 30_000 && leftMs <= 60_000, `${leftMs} ms`);
    assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/v1\/hooks\/[\w-]{43}$/);
    assert.equal((await deliver(url, { amount: 12 })).status, 202);
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: {"amount":12}');
  });

  for (const payload of [null, 7, 'text', [1, 2], {}]) {
    it(`take ${JSON.stringify(payload)} as a webhook's body`, async () => {
      const { run, url } = await waitingRun('call wait_for_webhook {}');
      assert.equal((await deliver(url, payload)).status, 202);
      await runIs(run, 'completed');
      const { json } = await api.call('GET', `/v1/runs/${run}/turns`);
      const { json: turn } = await api.call('GET', `/v1/runs/${run}/turns/${json.turns[0].id}`);
      const { json: output } = await api.call('GET', `/v1/tool-calls/${turn.tool_calls[0].id}/output`);
      assert.deepEqual(output.output, payload);
    });
  }

  it('keep the digits of integers in a webhook that a double does not hold', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {}');
    const raw = '{"id":9007199254740993,"n":5}';
    assert.equal((await api.call('POST', new URL(url).pathname, { key: null, raw })).status, 202);
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: {"id":"9007199254740993","n":5}');
  });

  it('count a webhook once, also when its run has ended since, and know no other address', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {} | wait 400 call ask_user {"question":"more?"}');
    assert.equal((await deliver(url, { n: 1 })).status, 202);
    assert.equal((await deliver(url, { n: 2 })).status, 200);
    await waitUntil('the question', async () => (await getRun(run)).waiting_for?.type === 'user');
    assert.equal((await deliver(url, { n: 3 })).status, 200);
    await post(`/v1/runs/${run}/signals`, { type: 'user', payload: { message: 'no' } });
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: {"n":1}, {"message":"no"}');
    assert.equal((await deliver(url, { n: 4 })).status, 200);
    assert.equal((await deliver(`${api.url}/v1/hooks/${'x'.repeat(43)}`, {})).status, 404);
    assert.equal((await deliver(`${api.url}/v1/hooks/short`, {})).status, 404);
  });

  it('refuse a webhook that comes first to a finished run', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {}');
    await post(`/v1/runs/${run}/cancel`, {});
    assert.equal((await deliver(url, {})).status, 409);
    assert.equal((await deliver(url, {})).status, 409, 'nothing of it was kept');
  });

  it('count a signal once by its id, also when its run has ended since', async () => {
    const run = await startRun('call wait_for_webhook {"name":"paid"}');
    await runIs(run, 'awaiting_human');
    const signal = (given: Record<string, unknown>, headers = {}) =>
      api.call('POST', `/v1/runs/${run}/signals`, { body: { type: 'webhook', name: 'paid', ...given }, headers });
    const key = { 'idempotency-key': 'k' };
    assert.equal((await signal({ payload: 1, id: 'a' })).status, 202);
    await runIs(run, 'completed');
    assert.deepEqual((await signal({ payload: 1, id: 'a' })).json, { id: 'a', status: 'accepted' });
    const others = [
      signal({ payload: 1, id: 'a' }),
      signal({ payload: 2, id: 'a' }),
      signal({ payload: 1, id: 'b' }),
      signal({ payload: 1 }, key),
      signal({ payload: 1 }),
    ];
    const statuses = (await Promise.all(others)).map(({ status }) => status);
    assert.deepEqual(statuses, [200, 422, 409, 409, 409], 'only what it had taken before is known to it');
  });

  it('tell parallel webhooks apart, each by its own address', async () => {
    const { run } = await waitingRun('call wait_for_webhook {} & wait_for_webhook {}');
    const { waits } = await getRun(run);
    assert.equal(waits.length, 2);
    const { json } = await api.call('GET', `/v1/runs/${run}/events?types=tool.requested`);
    const [first, second] = json.events.map(({ payload }: { payload: { tool_call_id: string } }) =>
      waits.find((wait: { tool_call_id: string }) => wait.tool_call_id === payload.tool_call_id),
    );
    await deliver(second.hook_url, 'second');
    await waitUntil('one of them has come', async () => (await getRun(run)).waits?.length === 1);
    await deliver(first.hook_url, 'first');
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: first, second');
  });

  it('show the address to those alone who may answer, and write it nowhere in clear', async () => {
    const { run, url } = await waitingRun('call wait_for_webhook {}');
    const token = url.slice(-43);
    const { json: reader } = await post('/v1/api-keys', { name: 'reader', scopes: ['runs:read'] });
    const { waiting_for } = await getRun(run, reader.key);
    assert.deepEqual([waiting_for.type, waiting_for.hook_url], ['webhook', undefined]);
    const { text } = await api.call('GET', `/v1/runs/${run}/events?limit=200`);
    assert.ok(!text.includes(token) && !JSON.stringify(api.log).includes(token));
    const stored = await textsOfWaitingRuns(api.context.db);
    assert.ok(stored.length > 10 && !stored.some((row) => row.includes(token)));
    await deliver(url, {});
    await runIs(run, 'completed');
  });

  it('are answered by a signal of their own type and name alone, which may come early', async () => {
    const run = await startRun('wait 800 call wait_for_webhook {"name":"a"} | call wait_for_webhook {"name":"b"}');
    const signal = (name: string | undefined, payload: unknown, type = 'webhook') =>
      post(`/v1/runs/${run}/signals`, { type, ...(name && { name }), payload });
    assert.equal((await signal('a', 'early')).status, 202);
    await waitUntil('the second wait', async () => (await getRun(run)).waiting_for?.name === 'b');
    await signal('c', 'other name');
    await signal(undefined, 'no name');
    await signal('b', 'other type', 'timer');
    assert.equal((await getRun(run)).waiting_for.name, 'b');
    await signal('b', 'right');
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: early, right');
  });

  it('fail where nobody calls in time, and take no webhook after that', async () => {
    const { run, url } = await waitingRun(
      'call wait_for_webhook {"timeout_seconds":0.4} | call ask_user {"question":"?"}',
    );
    await waitUntil('the question', async () => (await getRun(run)).waiting_for?.type === 'user');
    assert.equal((await deliver(url, {})).status, 409);
    await post(`/v1/runs/${run}/signals`, { type: 'user', payload: { message: 'ok' } });
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: The webhook was not called in time., {"message":"ok"}');
  });

  it('sleep for a while and until a time, and leave a synchronous turn waiting', async () => {
    const { json: agent } = await post('/v1/agents', { name: 'sleeper', tools: TOOLS });
    const { json: run } = await post(`/v1/agents/${agent.id}/runs`, {});
    const startedMs = Date.now();
    const turn = await post(`/v1/agents/${agent.id}/runs/${run.run_id}/turns`, {
      input: {
        message:
          'call sleep {"seconds":0.5} | call sleep {"until":"2026-01-01T00:00:00+02:00"} | call sleep {"until":"0000-01-01T00:00:00Z"}',
      },
    });
    assert.equal(turn.json.output.status, 'complete');
    assert.match(
      turn.json.output.message,
      /^done: \{"until":"20.*"\}, \{"until":"2025-12-31T22:00:00.000Z"\}, \{"until":"1970-01-01T00:00:00.000Z"\}$/,
    );
    assert.ok(Date.now() - startedMs > 500);
    const { json } = await api.call('GET', `/v1/runs/${run.run_id}/events?types=timer.fired`);
    assert.equal(json.events.length, 3);
  });

  it('end a sleep early by a signal of type timer, and refuse a time that is none', async () => {
    const { run } = await waitingRun('call sleep {"seconds":86400,"name":"nap"}');
    const { waiting_for } = await getRun(run);
    assert.deepEqual([waiting_for.type, waiting_for.name], ['timer', 'nap']);
    await post(`/v1/runs/${run}/signals`, { type: 'timer', name: 'nap', payload: 'up' });
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: up');
    const refused = await startRun(
      'call sleep {"until":"tomorrow"} | call sleep {"until":"2026-02-30T00:00:00Z"} | call sleep {"until":"9999-01-01T00:00:00Z"} | call sleep {}',
    );
    await runIs(refused, 'completed');
    assert.match(
      (await getRun(refused)).output.message,
      /"tomorrow" is no RFC 3339 time.*-30T00:00:00Z" is no RFC 3339 time.*more than 31536000 s away.*Invalid arguments/,
    );
  });

  it('are opened after a person has let them, with the arguments that the person gave', async () => {
    const run = await startRun('call sleep {"seconds":3600}', { autonomy_level: 0 });
    await runIs(run, 'awaiting_human');
    const { json } = await api.call('GET', `/v1/approvals?status=pending&run_id=${run}`);
    const { waiting_for } = await getRun(run);
    assert.deepEqual([waiting_for.type, waiting_for.until], ['approval', json.approvals[0].expires_at]);
    await post(`/v1/approvals/${json.approvals[0].id}`, { decision: 'edit', arguments: { seconds: 0.2 } });
    await runIs(run, 'completed');
    assert.match((await getRun(run)).output.message, /^done: \{"until"/);
  });

  /** A run whose webhook is called, and then the queue loses the job that this sent. */
  async function loseJobAfter(message: string): Promise<string> {
    const { run } = await waitingRun(message);
    const hook = (await api.call('GET', `/v1/runs/${run}`)).json.waits.find(
      ({ type }: { type: string }) => type === 'webhook',
    );
    await workers.stop(3000);
    await deliver(hook.hook_url, 'kept');
    await waitUntil('the job is there', async () => (await jobsOf(run)).length > 0);
    for (const job of await jobsOf(run)) await job.remove();
    assert.equal((await reconcile(api.context, 0, newId())).turns, 0, 'another tenant has lost nothing');
    assert.equal((await reconcile(api.context, 0)).turns, 1);
    workers = await startWorkers(api.context);
    return run;
  }

  it('go on although the job that an answer sent was lost', async () => {
    const run = await loseJobAfter('call wait_for_webhook {}');
    await runIs(run, 'completed');
    assert.equal((await getRun(run)).output.message, 'done: kept');
  });

  it('use an answer whose job was lost while they wait for another one', async () => {
    const run = await loseJobAfter('call wait_for_webhook {} & ask_user {"question":"And you?"}');
    const succeeded = async () => (await api.call('GET', `/v1/runs/${run}/events?types=tool.succeeded`)).json.events;
    await waitUntil('the answer is used', async () => (await succeeded()).length === 1);
    assert.equal((await reconcile(api.context, 0)).turns, 0, 'it waits for the other one');
    await post(`/v1/runs/${run}/signals`, { type: 'user', payload: { message: 'yes' } });
    await runIs(run, 'completed');
  });

  const jobsOf = async (run: string) => {
    const jobs = await api.context.queues.queue('turns').getJobs(['waiting', 'delayed', 'active', 'prioritized']);
    return jobs.filter((job) => job.data.runId === run);
  };

  it('cost no job, no lease and no outbox row, and reconciliation leaves them alone', async () => {
    const runs = await Promise.all([
      waitingRun('call wait_for_webhook {"name":"idle"}'),
      waitingRun('call sleep {"seconds":3600}'),
      waitingRun('call ask_user {"question":"idle?"} & wait_for_webhook {}'),
    ]);
    await waitUntil('nothing is under way', async () => (await heldRuns(api.context.db)).length === 0);
    const { turns, 'tool-calls': calls } = await reconcile(api.context, 0);
    assert.deepEqual([turns, calls], [0, 0]);
    for (const { run } of runs) {
      assert.deepEqual(await jobsOf(run), []);
      await post(`/v1/runs/${run}/cancel`, {});
    }
    assert.deepEqual(await openWaitsOfAll(api.context.db), []);
  });

  it('carry early signals over to a retry', async () => {
    const run = await startRun('wait 500 call wait_for_webhook {"name":"late"}');
    await post(`/v1/runs/${run}/signals`, { type: 'webhook', name: 'other', payload: 'kept' });
    await runIs(run, 'awaiting_human');
    await post(`/v1/runs/${run}/checkpoints`, {});
    await post(`/v1/runs/${run}/cancel`, {});
    const { json: again } = await post(`/v1/runs/${run}/retry`, {});
    const { json } = await api.call('GET', `/v1/runs/${again.run_id ?? again.new_run_id}/events?types=run.forked`);
    assert.deepEqual(
      json.events[0].payload.signals.map(({ name, payload }: { name: string; payload: string }) => [name, payload]),
      [['other', 'kept']],
    );
    await post(`/v1/runs/${again.run_id ?? again.new_run_id}/cancel`, {});
  });

  describe('in great numbers', () => {
    const tenant = newId();

    before(async () => {
      await workers.stop(3000);
      await addTimers({ ...api, tenantId: tenant }, { open: 100_000, due: 2000 });
    });

    it('are claimed by ticks that share them without getting in each other way, and no others', async () => {
      const claim = () => claimDueWaits(api.context.db, { limit: 700, claimMs: 60_000 });
      const claimed = (await Promise.all([claim(), claim(), claim(), claim()])).flat();
      assert.equal(claimed.length, 2000);
      assert.equal(new Set(claimed.map(({ run_id }) => run_id)).size, 2000);
    });

    it('are found through an index among 100,000', async () => {
      const text = await api.context.db.asMaintenance((tx) => planOf(tx, DUE_WAITS, [1000]));
      assert.match(text, /Index Scan using waits_due/);
      assert.doesNotMatch(text, /Seq Scan/);
    });
  });
});
