import assert from 'node:assert/strict';
import { startTestApi, type TestApi } from '../support/api.ts';
import { newName } from '../support/new-name.ts';

describe('a retry by a key that may not raise the autonomy level', () => {
  let api: TestApi;
  let writer: string;
  before(async () => {
    api = await startTestApi();
    const body = { name: 'writer', scopes: ['runs:write', 'runs:read'] };
    writer = (await api.call('POST', '/v1/api-keys', { body })).json.key;
  });
  after(() => api.close());

  const newAgent = async (fields: Record<string, unknown> = {}): Promise<string> => {
    const { status, json, text } = await api.call('POST', '/v1/agents', { body: { name: newName(), ...fields } });
    assert.equal(status, 201, text);
    return json.id;
  };
  const change = async (agent: string, body: Record<string, unknown>) =>
    assert.equal((await api.call('PATCH', `/v1/agents/${agent}`, { body })).status, 200);
  /** A cancelled run of the admin's. */
  const cancelled = async (agent: string, config: Record<string, unknown> = {}): Promise<string> => {
    const { status, json, text } = await api.call('POST', `/v1/agents/${agent}/runs`, { body: { config } });
    assert.equal(status, 201, text);
    assert.equal((await api.call('POST', `/v1/runs/${json.run_id}/cancel`)).status, 202);
    return json.run_id;
  };
  const retry = (run: string, key?: string) =>
    api.call('POST', `/v1/runs/${run}/retry`, { body: {}, ...(key !== undefined && { key }) });
  const levelOf = async (run: string) => {
    const { json } = await api.call('GET', `/v1/runs/${run}/events?types=run.created`);
    return json.events[0].payload.config.autonomy_level;
  };

  it("goes on at the agent's level, where the run had a higher one; who may raise it keeps it", async () => {
    const agent = await newAgent({ autonomy_level: 2 });
    const { status, json, text } = await retry(await cancelled(agent, { autonomy_level: 3 }), writer);
    assert.equal(status, 202, text);
    assert.equal(await levelOf(json.new_run_id), 2);
    assert.equal(await levelOf((await retry(await cancelled(agent, { autonomy_level: 3 }))).json.new_run_id), 3);
    const lower = await retry(await cancelled(agent, { autonomy_level: 1 }), writer);
    assert.equal(await levelOf(lower.json.new_run_id), 1);
  });

  it("goes on at the level of the agent's current version, where that was lowered since", async () => {
    const agent = await newAgent({ autonomy_level: 3 });
    const run = await cancelled(agent);
    await change(agent, { autonomy_level: 1 });
    const { status, json, text } = await retry(run, writer);
    assert.equal(status, 202, text);
    assert.equal(await levelOf(json.new_run_id), 1);
  });

  it('is refused where the current version has rails that the one of the run has not', async () => {
    const agent = await newAgent();
    const [run, other] = [await cancelled(agent), await cancelled(agent)];
    await change(agent, { guardrail_config: { tool_rails: { max_calls_per_turn: 1 } } });
    const refused = await retry(run, writer);
    assert.equal(refused.status, 403);
    assert.match(refused.text, /guards calls more \(.*approvals:write/);
    const filter = { agent_id: agent, status: 'cancelled' };
    const counted = async (key?: string) => {
      const body = { filter, dry_run: true };
      const { status, json } = await api.call('POST', '/v1/runs/retry', { body, ...(key !== undefined && { key }) });
      assert.equal(status, 200);
      return json;
    };
    assert.deepEqual(await counted(writer), { matching: 0, run_ids: [], more: false }, 'as it would be left out');
    assert.equal((await counted()).matching, 2);
    const many = await api.call('POST', '/v1/runs/retry', { key: writer, body: { filter } });
    assert.deepEqual([many.status, many.json.retried], [200, 0], many.text);
    assert.equal((await retry(other)).status, 202);
  });
});
