import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { newName } from '../support/new-name.ts';

describe('/v1/budgets', () => {
  let api: TestApi;

  before(async () => {
    api = await startTestService();
  });
  after(() => api.close());

  const make = (body: unknown, key = api.key) => api.call('POST', '/v1/budgets', { body, key });

  it('are made, shown, changed and deleted', async () => {
    const { status, json } = await make({ period: 'month', max_cost_usd: 12.5, max_tokens: 1000 });
    assert.equal(status, 201);
    const { id, created_at: _c, updated_at: _u, period_start, ...rest } = json;
    assert.match(period_start, /^\d{4}-\d\d-01$/);
    assert.deepEqual(rest, {
      budget_id: id,
      name: 'tenant by month',
      scope: 'tenant',
      workspace_id: null,
      agent_id: null,
      period: 'month',
      max_tokens: 1000,
      max_cost_usd: 12.5,
      soft_limit: 0.8,
      on_soft_limit: 'warn',
      spent: { tokens: 0, cost_usd: 0 },
      reserved: { tokens: 0, cost_usd: 0 },
    });
    const { json: changed } = await api.call('PATCH', `/v1/budgets/${id}`, {
      body: { max_tokens: null, on_soft_limit: 'ask' },
    });
    assert.deepEqual([changed.max_tokens, changed.max_cost_usd, changed.on_soft_limit], [null, 12.5, 'ask']);
    assert.equal((await api.call('PATCH', `/v1/budgets/${id}`, { body: { max_cost_usd: null } })).status, 422);
    assert.deepEqual((await api.call('GET', `/v1/budgets/${id}`)).json, changed);
    assert.deepEqual((await api.call('GET', '/v1/budgets')).json.budgets, [changed]);
    assert.equal((await api.call('DELETE', `/v1/budgets/${id}`)).status, 204);
    assert.equal((await api.call('GET', `/v1/budgets/${id}`)).status, 404);
  });

  it('keep both limits that are changed at the same time', async () => {
    const { json } = await api.call('POST', '/v1/budgets', { body: { period: 'day', max_tokens: 9, max_cost_usd: 9 } });
    const change = (body: Record<string, number>) => api.call('PATCH', `/v1/budgets/${json.id}`, { body });
    for (let n = 1; n <= 8; n++) {
      await Promise.all([change({ max_tokens: n }), change({ max_cost_usd: n })]);
      const { max_tokens, max_cost_usd } = (await api.call('GET', `/v1/budgets/${json.id}`)).json;
      assert.deepEqual([max_tokens, max_cost_usd], [n, n]);
    }
    await api.call('DELETE', `/v1/budgets/${json.id}`);
  });

  it('refuse what is no budget', async () => {
    for (const body of [
      { period: 'day' },
      { max_tokens: 1 },
      { period: 'hour', max_tokens: 1 },
      { period: 'day', max_tokens: 0 },
    ])
      assert.equal((await make(body)).status, 400, JSON.stringify(body));
    assert.equal((await make({ period: 'day', max_tokens: 1, agent_id: randomUUID() })).status, 422);
    assert.equal((await make({ period: 'day', max_tokens: 1, workspace_id: randomUUID() })).status, 422);
  });

  it('are written by admins and read by those who read runs', async () => {
    const { json } = await api.call('POST', '/v1/api-keys', { body: { name: 'reader', scopes: ['runs:read'] } });
    assert.equal((await make({ period: 'day', max_tokens: 1 }, json.key)).status, 403);
    assert.equal((await api.call('GET', '/v1/budgets', { key: json.key })).status, 200);
  });

  it('bound the runs of their agent, and one of a run bounds that run', async () => {
    const { json: agent } = await api.call('POST', '/v1/agents', { body: { name: newName(), tools: ['calculator'] } });
    const ask = async (config: unknown) => {
      const input = { message: 'What is 6*7?' };
      const { json: run, status, text } = await api.call('POST', `/v1/agents/${agent.id}/runs`, { body: { config } });
      if (status !== 201) return { status, text, output: undefined, stop_reason: undefined };
      const { json } = await api.call('POST', `/v1/runs/${run.run_id}/turns`, { body: { input } });
      return { status, text, ...json };
    };
    assert.equal((await ask({ budget: {} })).status, 400);
    assert.equal((await ask({ budget: { max_money: 1 } })).status, 400);
    const stopped = await ask({ budget: { max_steps: 1 } });
    assert.deepEqual([stopped.output.status, stopped.stop_reason], ['complete', 'budget']);
    assert.equal((await ask({ budget: { max_steps: 9 } })).stop_reason, 'end_turn');
    const { json: budget } = await make({ period: 'total', agent_id: agent.id, max_tokens: 1_000_000 });
    assert.equal((await ask({})).stop_reason, 'end_turn');
    const { json: after } = await api.call('GET', `/v1/budgets/${budget.id}`);
    assert.ok(after.spent.tokens > 0);
    await api.call('PATCH', `/v1/budgets/${budget.id}`, { body: { max_tokens: 1 } });
    const refused = await ask({});
    assert.deepEqual([refused.output.status, refused.error.code], ['failed', 'budget']);
  });
});
