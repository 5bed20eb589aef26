import assert from 'node:assert/strict';
import { LIMITS } from '../../core/limits.ts';
import { newId } from '../../lib/new-id.ts';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { startFakeAnthropic } from '../support/fake-anthropic.ts';
import type { FakeServer } from '../support/fake-http.ts';
import { asOwner, insertRun, insertThread } from '../support/stored-runs.ts';
import { forgetAnswer } from '../support/queries/tenants.ts';
import { waitUntil } from '../support/wait-until.ts';

describe('POST /v1/runs/retry', () => {
  let api: TestApi;
  let model: FakeServer;
  before(async () => {
    model = await startFakeAnthropic(() => ({ error: { status: 401, type: 'authentication_error' } }));
    api = await startTestService({ model });
  });
  after(() => api.close());

  /** A tenant with runs that have failed, since the key of their model is wrong. */
  const failures = async (count: number) => {
    const { id: tenantId, key } = await api.newTenant();
    const call = (method: string, path: string, body?: unknown) => api.call(method, path, { key, body });
    const post = async (path: string, body: unknown) => (await call('POST', path, body)).json;
    const agent = await post('/v1/agents', { name: 'wrong key', llm_config: { default_model: 'claude-sonnet-5' } });
    const run = { input: { message: 'hello' } };
    const runs: string[] = [];
    for (let n = 0; n < count; n += 1) runs.push((await post(`/v1/agents/${agent.id}/runs`, run)).run_id);
    const statusOf = async (id: string) => (await call('GET', `/v1/runs/${id}`)).json.status;
    for (const id of runs) await waitUntil('it fails', async () => (await statusOf(id)) === 'failed');
    return { tenantId, key, call, post, agent: agent.id as string, runs };
  };

  it('retries the runs that have failed and fit, once, and tells the audit log', async () => {
    const { call, post, agent, runs } = await failures(3);
    const filter = { agent_id: agent, error_code: 'provider_rejected' };
    const dry = await post('/v1/runs/retry', { filter, dry_run: true });
    assert.deepEqual(
      { ...dry, run_ids: dry.run_ids.toSorted() },
      { matching: 3, run_ids: runs.toSorted(), more: false },
    );
    assert.equal((await call('GET', '/v1/audit?action=runs.retried')).json.audit.length, 0, 'a dry run is no act');
    const { retried, runs: pairs, more } = await post('/v1/runs/retry', { filter });
    assert.deepEqual([retried, more], [3, false]);
    assert.deepEqual(pairs.map(({ run_id }: { run_id: string }) => run_id).toSorted(), runs.toSorted());
    for (const { run_id, new_run_id } of pairs) {
      assert.equal((await call('GET', `/v1/runs/${new_run_id}`)).json.retried_from, run_id);
    }
    const again = await post('/v1/runs/retry', { filter: { ...filter, thread_id: undefined }, dry_run: true });
    assert.ok(
      runs.every((id) => !again.run_ids.includes(id)),
      'what was retried is skipped',
    );
    const { audit } = (await call('GET', '/v1/audit?action=runs.retried')).json;
    assert.deepEqual([audit.length, audit[0].details.filter.errorCode], [1, 'provider_rejected']);
  });

  it('is answered as before under the same Idempotency-Key, whatever has failed since', async () => {
    const { key, agent, runs } = await failures(3);
    const retry = (name: string, body: unknown) =>
      api.call('POST', '/v1/runs/retry', { key, body, headers: { 'idempotency-key': name } });
    const statusOf = async (id: string) => (await api.call('GET', `/v1/runs/${id}`, { key })).json.status;
    const body = { filter: { agent_id: agent } };
    const [first, atOnce] = await Promise.all([retry('k', body), retry('k', body)]);
    assert.deepEqual([first.status, first.json.retried, atOnce.text], [200, 3, first.text]);
    assert.deepEqual(first.json.runs.map(({ run_id }: { run_id: string }) => run_id).toSorted(), runs.toSorted());
    for (const { new_run_id: id } of first.json.runs)
      await waitUntil('the retry fails', async () => (await statusOf(id)) === 'failed');
    const again = await retry('k', body);
    assert.deepEqual([again.text, again.headers.get('idempotent-replayed')], [first.text, 'true']);
    assert.equal((await retry('k', { filter: { agent_id: agent, status: 'failed' } })).status, 422);
    const { json } = await api.call('GET', `/v1/agents/${agent}/runs`, { key });
    assert.equal(json.runs.length, 6, 'no run was begun by the repeated ones');
    const dry = await retry('dry', { ...body, dry_run: true });
    assert.deepEqual([dry.json.matching, (await retry('dry', { ...body, dry_run: true })).text], [3, dry.text]);
    assert.equal((await retry('another', body)).json.retried, 3);
  });

  it('goes on under its Idempotency-Key with the runs that fitted, where it was cut off', async () => {
    const { tenantId, key, call, agent, runs } = await failures(2);
    const headers = { 'idempotency-key': 'cut' };
    const body = { filter: { agent_id: agent } };
    const retry = async () => (await api.call('POST', '/v1/runs/retry', { key, body, headers })).json;
    const first = await retry();
    await forgetAnswer({ ...api, tenantId }, 'POST /v1/runs/retry');
    const [{ new_run_id: later }] = first.runs;
    await waitUntil('it fails', async () => (await call('GET', `/v1/runs/${later}`)).json.status === 'failed');
    assert.deepEqual(await retry(), first);
    assert.deepEqual(first.runs.map(({ run_id }: { run_id: string }) => run_id).toSorted(), runs.toSorted());
  });

  it('leaves out what does not fit: other errors, other tenants, runs that were cancelled', async () => {
    const { post, agent } = await failures(1);
    const stranger = await api.newTenant();
    const filter = { agent_id: agent };
    const { json } = await api.call('POST', '/v1/runs/retry', { key: stranger.key, body: { filter } });
    assert.equal(json.retried, 0);
    assert.equal((await post('/v1/runs/retry', { filter: { ...filter, error_code: 'other' } })).retried, 0);
    assert.equal((await post('/v1/runs/retry', { filter: { ...filter, status: 'cancelled' } })).retried, 0);
    assert.equal((await post('/v1/runs/retry', { filter: { ...filter, status: 'failed' } })).retried, 1);
  });

  it('leaves out runs whose agent takes no new ones, which would keep others from their turn', async () => {
    const { call, post, agent } = await failures(1);
    await call('DELETE', `/v1/agents/${agent}`);
    const { matching } = await post('/v1/runs/retry', { filter: { agent_id: agent }, dry_run: true });
    assert.equal(matching, 0);
  });

  it('leaves out runs of deleted sessions, which take no new ones', async () => {
    const { call, post, agent } = await failures(0);
    const { session_id: session } = await post('/agent/chat', { message: 'hello', user_id: 'ada', agent_id: agent });
    const state = async () => (await call('GET', `/agent/session/${session}`)).json;
    await waitUntil('it fails', async () => (await state()).status === 'error');
    const { run_id: run } = await state();
    assert.ok((await call('DELETE', `/agent/session/${session}`)).status < 300);
    assert.equal((await call('GET', `/v1/runs/${run}`)).json.status, 'cancelled');
    const filter = { agent_id: agent, status: 'cancelled' };
    assert.equal((await post('/v1/runs/retry', { filter, dry_run: true })).matching, 0);
  });

  it('goes on past runs that it may not retry, however many they are', async () => {
    const { tenantId, key, runs } = await failures(1);
    const { workspace_id } = (await api.call('GET', `/v1/runs/${runs[0]}`, { key })).json;
    await api.context.db.asOwner(async (client) => {
      for (let n = 0; n <= LIMITS.retryRuns; n += 1) {
        const [id, thread] = [newId(), newId()];
        await insertThread(client, { tenant: tenantId, id: thread });
        await insertRun(client, { tenant: tenantId, id, thread, minutesAgo: 0 });
      }
      // Workflows of which nothing is left to begin again.
      const failed = `update runs set status = 'failed', kind = 'workflow', workspace_id = $2 where tenant_id = $1 and agent_id = $1`;
      await asOwner(client, failed, [tenantId, workspace_id]);
    });
    const body = { filter: { status: 'failed' } };
    const headers = { 'idempotency-key': 'past-them' };
    const retry = async () => {
      const { status, json, text } = await api.call('POST', '/v1/runs/retry', { key, body, headers });
      assert.equal(status, 200, text);
      return json;
    };
    const dry = await api.call('POST', '/v1/runs/retry', { key, body: { ...body, dry_run: true } });
    assert.deepEqual(dry.json, { matching: 1, run_ids: runs, more: false });
    const { retried, runs: pairs, more } = await retry();
    assert.deepEqual([retried, pairs[0]?.run_id, more], [1, runs[0], false]);
    assert.deepEqual((await retry()).runs, pairs);
    await forgetAnswer({ ...api, tenantId }, 'POST /v1/runs/retry');
    assert.deepEqual((await retry()).runs, pairs, 'one that was cut off goes on with what it has chosen');
  });

  it('retries a failed workflow as a request for it alone does, and none of its children beside it', async () => {
    const { call, post, agent } = await failures(0);
    const definition = {
      subtasks: [{ id: 'a', description: 'Do a.', dependencies: [], agent: 'wrong key' }],
      success_criteria: 'It is done.',
    };
    const input = { user_query: 'Do it.' };
    const { id } = await post('/v1/workflows', { name: 'hopeless', agent_id: agent, input, definition });
    const read = async () => (await call('GET', `/v1/workflows/${id}`)).json;
    await waitUntil('it fails', async () => (await read()).status === 'failed');
    const { run_id: child } = (await read()).tasks[0];
    assert.equal((await call('GET', `/v1/runs/${child}`)).json.status, 'failed');
    const filter = { status: 'failed' };
    const dry = await post('/v1/runs/retry', { filter, dry_run: true });
    assert.deepEqual(dry, { matching: 1, run_ids: [id], more: false });
    const { retried, runs, more } = await post('/v1/runs/retry', { filter });
    assert.deepEqual([retried, runs[0].run_id, more], [1, id, false]);
    const { kind, retried_from } = (await call('GET', `/v1/runs/${runs[0].new_run_id}`)).json;
    assert.deepEqual([kind, retried_from], ['workflow', id]);
    assert.equal((await call('GET', `/v1/workflows/${runs[0].new_run_id}`)).json.tasks.length, 1);
  });

  it('takes the newest of more runs than one request may retry, and says that there are others', async () => {
    const { id: tenant, key } = await api.newTenant();
    const post = async (path: string, body: unknown) => (await api.call('POST', path, { key, body })).json;
    const agent = await post('/v1/agents', { name: 'many' });
    const runs: string[] = [];
    for (let n = 0; n <= LIMITS.retryRuns; n += 1) runs.push((await post(`/v1/agents/${agent.id}/runs`, {})).run_id);
    await api.context.db.asOwner((client) =>
      asOwner(client, `update runs set status = 'failed' where tenant_id = $1`, [tenant]),
    );
    const answer = await post('/v1/runs/retry', { filter: { status: 'failed' }, dry_run: true });
    assert.deepEqual(answer, { matching: LIMITS.retryRuns, run_ids: runs.slice(1).toReversed(), more: true });
  });

  it('wants a filter, and a key that may write', async () => {
    const { key, call } = await failures(0);
    for (const body of [{}, { filter: {} }, { filter: { status: 'completed' } }]) {
      assert.equal((await call('POST', '/v1/runs/retry', body)).status, 400);
    }
    const reader = await api.call('POST', '/v1/api-keys', { key, body: { name: 'r', scopes: ['runs:read'] } });
    const body = { filter: { status: 'failed' } };
    assert.equal((await api.call('POST', '/v1/runs/retry', { key: reader.json.key, body })).status, 403);
  });
});
