import assert from 'node:assert/strict';
import { digestOf } from '../../core/ids.ts';
import type { TestApi } from '../support/api.ts';
import { startTestService } from '../support/service.ts';
import { waitUntil } from '../support/wait-until.ts';
import { sealAudit } from '../../modules/audit/seal-audit.ts';

interface Entry {
  action: string;
  actor: { type: string; id: string | null };
  target: { type: string; id: string | null };
  digest: string | null;
  details: Record<string, unknown>;
  ip: string | null;
  forwarded_for: string | null;
  request_id: string | null;
  seq: number | null;
}

describe('GET /v1/audit', () => {
  let api: TestApi;
  let tenant: { id: string; key: string };
  let key: string;

  before(async () => {
    api = await startTestService();
    tenant = await api.newTenant();
    ({ key } = tenant);
  });
  after(() => api.close());

  const call = (method: string, path: string, body?: unknown) =>
    api.call(method, path, { key, ...(body !== undefined && { body }) });
  const make = async (path: string, body: unknown) => {
    const { status, json, text } = await call('POST', path, body);
    assert.ok(status < 300, text);
    return json;
  };
  const about = async (target: string): Promise<Entry[]> =>
    (await call('GET', `/v1/audit?target=${target}`)).json.audit;
  const actions = async (target: string) => (await about(target)).map(({ action }) => action).toReversed();

  it('tells who did what, when, from where, on which digest', async () => {
    const headers = { 'x-request-id': 'request-7', 'x-forwarded-for': '192.0.2.7' };
    const { json: agent } = await api.call('POST', '/v1/agents', { key, body: { name: 'audited' }, headers });
    const [entry] = await about(agent.id);
    assert.ok(entry);
    const { json } = await call('GET', '/v1/api-keys');
    assert.deepEqual(entry.actor, { type: 'api_key', id: json.api_keys[0].id });
    assert.match(entry.ip ?? '', /127\.0\.0\.1$/);
    assert.deepEqual([entry.request_id, entry.forwarded_for], ['request-7', '192.0.2.7']);
    assert.match(entry.digest ?? '', /^[0-9a-f]{64}$/);
    assert.deepEqual(entry.details, { name: 'audited', version: '1.0.0' });
  });

  it('has a row for each change of agents, tools and keys, and none for what changed nothing or failed', async () => {
    const agent = await make('/v1/agents', { name: 'a' });
    await call('PATCH', `/v1/agents/${agent.id}`, { description: 'b' });
    await call('PATCH', `/v1/agents/${agent.id}`, { description: 'b' });
    await call('DELETE', `/v1/agents/${agent.id}`);
    await call('DELETE', `/v1/agents/${agent.id}`);
    assert.equal((await call('PATCH', `/v1/agents/${agent.id}`, { description: 'c' })).status, 409);
    assert.deepEqual(await actions(agent.id), ['agent.created', 'agent.updated', 'agent.deprecated']);
    const tool = await make('/v1/tools', {
      name: 't',
      description: 'd',
      transport: { type: 'http', endpoint: 'https://t.example' },
    });
    await call('PATCH', `/v1/tools/${tool.id}`, { description: 'e' });
    await call('DELETE', `/v1/tools/${tool.id}`);
    assert.deepEqual(await actions(tool.id), ['tool.registered', 'tool.updated', 'tool.deleted']);
    await call('PUT', '/v1/secrets/canary_name', { value: 'canary-value' });
    await call('DELETE', '/v1/secrets/canary_name');
    assert.equal((await call('DELETE', '/v1/secrets/canary_name')).status, 404);
    assert.deepEqual(await actions('canary_name'), ['secret.stored', 'secret.deleted']);
    assert.ok(!JSON.stringify(await about('canary_name')).includes('canary-value'));
    const made = await make('/v1/api-keys', { name: 'k', scopes: ['runs:read'] });
    await call('DELETE', `/v1/api-keys/${made.id}`);
    await call('DELETE', `/v1/api-keys/${made.id}`);
    assert.deepEqual(await actions(made.id), ['api_key.created', 'api_key.revoked']);
  });

  it('has the members of a team with each change, and a digest of what it is', async () => {
    const [one, other] = [await make('/v1/agents', { name: 'one' }), await make('/v1/agents', { name: 'other' })];
    const pattern = { orchestration_pattern: 'sequential', config: { canary: 'value' } };
    const { id } = await make('/v1/teams', { name: 'pair', ...pattern, members: [{ agent_id: one.id }] });
    await call('PATCH', `/v1/teams/${id}`, { members: [{ agent_id: other.id }], supervisor_agent_id: one.id });
    const [changed, created] = await about(id);
    assert.deepEqual([created?.action, changed?.action], ['team.created', 'team.changed']);
    const was = { name: 'pair', supervisor_agent_id: null, members: [one.id] };
    assert.deepEqual(created?.details, was);
    assert.deepEqual(changed?.details, { ...was, supervisor_agent_id: one.id, members: [other.id] });
    assert.match(`${created?.digest} ${changed?.digest}`, /^[0-9a-f]{64} [0-9a-f]{64}$/);
    assert.notEqual(created?.digest, changed?.digest);
    assert.doesNotMatch(JSON.stringify([changed, created]), /canary/);
  });

  it('has a memory space that was made, with those who may read and write there', async () => {
    const who = { scope: 'private', allowed_agents: ['scout'], denied_agents: ['stranger'] };
    const { id } = await make('/v1/memory/spaces', { name: 'shelf', ...who });
    const [row, ...others] = await about(id);
    assert.deepEqual([row?.action, row?.target, others], ['space.created', { type: 'space', id }, []]);
    assert.deepEqual(row?.details, { name: 'shelf', team_id: null, workflow_id: null, ...who });
    assert.match(row?.digest ?? '', /^[0-9a-f]{64}$/);
  });

  it('has one row for a request that was repeated', async () => {
    const headers = { 'idempotency-key': 'once' };
    const repeated = { key, body: { name: 'repeated' }, headers };
    const { json } = await api.call('POST', '/v1/agents', repeated);
    await api.call('POST', '/v1/agents', repeated);
    assert.deepEqual(await actions(json.id), ['agent.created']);
  });

  it('has direct executions, begun and ended, without their input', async () => {
    const { json } = await call('GET', '/v1/tools?filter=name:calculator');
    const { id } = json.tools[0];
    await make(`/v1/tools/${id}/execute`, { input: { expression: '6*7000001' } });
    const [ended, begun] = await about(id);
    assert.deepEqual([begun?.action, ended?.action], ['tool.execution_started', 'tool.executed']);
    assert.equal(ended?.details['status'], 'success');
    assert.equal(begun?.details['call'], ended?.details['call']);
    assert.ok(!JSON.stringify([begun, ended]).includes('7000001'));
  });

  it('has decisions with the digest that they were made on, and cancels', async () => {
    const agent = await make('/v1/agents', { name: 'asks', tools: ['calculator'], autonomy_level: 0 });
    const { run_id } = await make(`/v1/agents/${agent.id}/runs`, { input: { message: 'What is 6*7?' } });
    let approval: { id: string; digest: string } | undefined;
    await waitUntil('an approval is asked for', async () => {
      approval = (await call('GET', `/v1/approvals?run_id=${run_id}`)).json.approvals[0];
      return approval !== undefined;
    });
    const { id = '', digest } = approval ?? {};
    await make(`/v1/approvals/${id}`, { decision: 'deny', reason: 'not today' });
    await make(`/v1/approvals/${id}`, { decision: 'deny', reason: 'not today' });
    const [decided, ...rest] = await about(id);
    assert.deepEqual(rest, []);
    assert.equal(decided?.digest, digest);
    assert.deepEqual(decided?.details, {
      decision: 'deny',
      kind: 'approval',
      run_id,
      tool: 'calculator',
      reason_digest: digestOf('not today'),
    });
    const open = await make(`/v1/agents/${agent.id}/runs`, {});
    await make(`/v1/runs/${open.run_id}/cancel`, { reason: 'enough' });
    await make(`/v1/runs/${open.run_id}/cancel`, { reason: 'enough' });
    assert.deepEqual(await actions(open.run_id), ['run.cancelled']);
  });

  it("has a tenant's making in the operator's log and in the tenant's own", async () => {
    const own = await api.call('GET', `/v1/audit?target=${tenant.id}`);
    const theirs = await about(tenant.id);
    assert.deepEqual([own.json.audit.length, theirs.length], [1, 1]);
    assert.equal(theirs[0]?.actor.type, 'operator');
  });

  it('is for admins, pages by key, and filters by action, actor and time', async () => {
    const reader = await make('/v1/api-keys', { name: 'reader', scopes: ['runs:read', 'approvals:write'] });
    assert.equal((await api.call('GET', '/v1/audit', { key: reader.key })).status, 403);
    assert.equal((await api.call('GET', '/v1/audit/verify', { key: reader.key })).status, 403);
    const all: string[] = [];
    for (let cursor = ''; ;) {
      const { json } = await call('GET', `/v1/audit?limit=3${cursor}`);
      all.push(...json.audit.map(({ id }: { id: string }) => id));
      if (json.next_cursor === undefined) break;
      cursor = `&cursor=${json.next_cursor}`;
    }
    const { json } = await call('GET', '/v1/audit?limit=200');
    assert.deepEqual(
      all,
      json.audit.map(({ id }: { id: string }) => id),
    );
    assert.ok(all.length > 10);
    const filtered = async (query: string): Promise<Entry[]> => (await call('GET', `/v1/audit?${query}`)).json.audit;
    const created = await filtered('action=agent.created');
    assert.ok(created.length >= 4 && created.every(({ action }) => action === 'agent.created'));
    assert.equal((await filtered('actor=operator')).length, 1);
    assert.equal((await filtered(`actor=${reader.id}`)).length, 0);
    assert.deepEqual(await filtered('created_before=2020-01-01T00:00:00Z'), []);
    assert.equal((await filtered('created_after=2020-01-01T00:00:00Z&limit=200')).length, all.length);
  });

  it('is verified as a chain', async () => {
    await sealAudit(api.context);
    const { json } = await call('GET', '/v1/audit/verify');
    assert.deepEqual([json.ok, json.broken, json.next], [true, null, null]);
    assert.equal(json.head.seq, json.checked);
    const { json: list } = await call('GET', '/v1/audit?limit=200');
    assert.equal(list.audit.filter(({ seq }: Entry) => seq !== null).length, json.checked);
  });
});
